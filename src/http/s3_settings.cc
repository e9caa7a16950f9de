#include "http/s3_settings.h"

#include <algorithm>

namespace headrace::http {
namespace {

std::string_view trimmed_line(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool said_yes(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text == "yes" || text == "true" || text == "1" || text == "on";
}

// What goes into header lines as it is.
bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Status refuse(Code code, std::string what) { return Status(code, Layer::kStore, std::move(what)); }

}  // namespace

std::string ini_value(std::string_view text, std::string_view section, std::string_view name) {
  bool inside = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed_line(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const std::size_t close = line.find(']');
      if (inside) return {};
      inside = close != std::string_view::npos && trimmed_line(line.substr(1, close - 1)) == section;
      continue;
    }
    // Indented lines belong to the value before them.
    if (!inside || raw.front() == ' ' || raw.front() == '\t') continue;
    const std::size_t equal = line.find('=');
    if (equal != std::string_view::npos && trimmed_line(line.substr(0, equal)) == name) {
      return std::string(trimmed_line(line.substr(equal + 1)));
    }
  }
  return {};
}

Result<S3Settings> find_s3_settings(const S3Surroundings& surroundings) {
  const auto first_of = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (std::string value = surroundings.secure_getenv(name); !value.empty()) return value;
    }
    return std::string();
  };
  const auto file_of = [&](const char* variable, const char* usual) {
    std::string path = surroundings.secure_getenv(variable);
    const std::string home = surroundings.secure_getenv("HOME");
    if (path.empty() && !home.empty()) path = home + usual;
    if (path.starts_with("~/")) path.replace(0, 1, home);
    return path.empty() ? std::string() : surroundings.file(path).value_or("");
  };
  const std::string named = surroundings.secure_getenv("AWS_PROFILE");
  const std::string profile = named.empty() ? "default" : named;
  const std::string credentials = file_of("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials");
  const std::string config = file_of("AWS_CONFIG_FILE", "/.aws/config");
  const auto in_profile = [&](std::string_view name) {
    std::string value = ini_value(credentials, profile, name);
    if (value.empty()) value = ini_value(config, profile == "default" ? "default" : "profile " + profile, name);
    return value;
  };

  S3Settings settings;
  settings.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (settings.region.empty()) settings.region = in_profile("region");
  // Any will do for the first request: the answer tells the right one.
  if (settings.region.empty()) settings.region = "us-east-1";
  std::string endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (endpoint.empty()) endpoint = in_profile("endpoint_url");
  if (!endpoint.empty()) {
    auto url = parse_url(endpoint);
    if (!url.ok() || !url->query.empty()) {
      return refuse(Code::kInvalidArgument,
                    "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url is no URL of a server")
          .with_cause(url.ok() ? "it has a query" : url.status().message());
    }
    settings.endpoint = *url;
  }
  if (said_yes(surroundings.secure_getenv("AWS_NO_SIGN_REQUEST"))) return settings;

  settings.keys = {surroundings.secure_getenv("AWS_ACCESS_KEY_ID"), surroundings.secure_getenv("AWS_SECRET_ACCESS_KEY"),
                   surroundings.secure_getenv("AWS_SESSION_TOKEN")};
  std::string from = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  if (settings.keys.id.empty() || settings.keys.secret.empty()) {
    settings.keys = {in_profile("aws_access_key_id"), in_profile("aws_secret_access_key"),
                     in_profile("aws_session_token")};
    from = "profile '" + profile + "'";
  }
  if (settings.keys.id.empty() || settings.keys.secret.empty()) {
    for (const char* way : {"role_arn", "sso_session", "sso_start_url", "credential_process"}) {
      if (!in_profile(way).empty()) {
        return refuse(Code::kUnsupported, "profile '" + profile + "' gets its credentials by " + way +
                                              ", which is not supported: export them to the environment");
      }
    }
    for (const char* way : {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                            "AWS_CONTAINER_CREDENTIALS_FULL_URI"}) {
      if (!surroundings.secure_getenv(way).empty()) {
        return refuse(Code::kUnsupported,
                      std::string("credentials by ") + way + " are not supported: export them to the environment");
      }
    }
    return refuse(
        Code::kPermission,
        "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile that has them "
        "by AWS_PROFILE, or set AWS_NO_SIGN_REQUEST=YES to read a public bucket");
  }
  if (!printable(settings.keys.id) || !printable(settings.keys.session_token) || !printable(settings.region)) {
    return refuse(Code::kInvalidArgument,
                  "the AWS credentials or region of " + from + " have characters that none has");
  }
  return settings;
}

Url place_in_bucket(const S3Settings& settings, std::string_view region, std::string_view bucket,
                    std::string_view key) {
  Url url;
  if (settings.endpoint) {
    url = *settings.endpoint;
    while (url.path.ends_with('/')) url.path.pop_back();
    url.path += "/";
    append_escaped(url.path, bucket, false);
    url.path += "/";
  } else {
    url.tls = true;
    url.port = 443;
    const std::string domain =
        "s3." + std::string(region) + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
    // A certificate is for one label in front: buckets with dots, or of names that no host has, go into the path.
    const bool host = std::all_of(bucket.begin(), bucket.end(),
                                  [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
    url.host = host ? std::string(bucket) + "." + domain : domain;
    if (!host) {
      append_escaped(url.path, bucket, false);
      url.path += "/";
    }
  }
  append_escaped(url.path, key, true);
  return url;
}

bool valid_bucket(std::string_view bucket) noexcept {
  if (bucket.size() < 3 || bucket.size() > 63 || bucket.find("..") != std::string_view::npos) return false;
  return std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

}  // namespace headrace::http
