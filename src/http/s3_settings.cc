#include "http/s3_settings.h"

#include <algorithm>

namespace headrace::http {
namespace {

Status find_addressing(const StorageOptions& options, S3Settings& settings) {
  using Addressing = S3Settings::Addressing;
  const std::string& style = options.text(StorageName::kAddressing);
  const auto hosted = options.flag(StorageName::kVirtualHosted);
  if (style == "path") {
    settings.addressing = Addressing::kPath;
  } else if (style == "virtual") {
    settings.addressing = Addressing::kHost;
  } else if (!style.empty() && style != "auto") {
    return refuse_option("the storage option 'addressing_style' must be path, virtual or auto");
  }
  if (!hosted) return {};
  if (*hosted && style == "path") {
    return refuse_option("the storage options 'virtual_hosted_style_request' and 'addressing_style' do not agree");
  }
  // obstore's meaning: a custom endpoint is then the bucket's own host.
  if (*hosted) {
    settings.addressing = settings.endpoint ? Addressing::kEndpointIsBucket : Addressing::kHost;
  } else if (style.empty()) {
    settings.addressing = Addressing::kPath;
  }
  return {};
}

}  // namespace

bool AwsProfile::exists(std::string_view profile) const {
  const std::string in_config = profile == "default" ? "default" : "profile " + std::string(profile);
  return has_ini_section(credentials, profile) || has_ini_section(config, in_config);
}

std::string AwsProfile::value(std::string_view profile, std::string_view what) const {
  std::string found = ini_value(credentials, profile, what);
  if (found.empty()) {
    found = ini_value(config, profile == "default" ? "default" : "profile " + std::string(profile), what);
  }
  return found;
}

AwsProfile find_aws_profile(const StorageOptions& options, const Surroundings& surroundings) {
  AwsProfile profile;
  profile.name = options.text(StorageName::kProfile);
  profile.given = !profile.name.empty();
  if (!profile.given) profile.name = surroundings.first_of({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  profile.named = !profile.name.empty();
  if (!profile.named) profile.name = "default";
  profile.credentials = surroundings.home_file("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials");
  profile.config = surroundings.home_file("AWS_CONFIG_FILE", "/.aws/config");
  return profile;
}

Result<std::optional<Url>> parse_endpoint(const std::string& text, const char* what, const StorageOptions& options) {
  if (text.empty()) return std::optional<Url>();
  auto url = parse_url(text);
  if (!url.ok() || !url->query.empty()) {
    return refuse_option(std::string(what) + " is not the URL of a server")
        .with_cause(url.ok() ? "it has a query" : url.status().message());
  }
  if (!url->tls && options.flag(StorageName::kAllowHttp) == false) {
    return refuse_option(std::string(what) + " is plain http, and the storage option 'allow_http' is false");
  }
  return std::optional<Url>(*std::move(url));
}

Status check_secret_may_go(const Url& endpoint, const StorageOptions& options) {
  if (endpoint.tls || is_loopback(endpoint) || options.is_on(StorageName::kAllowHttp)) return {};
  return refuse_option(
      "a token would go to the server by plain http, for everyone to read: give an https endpoint, or the "
      "storage option 'allow_http'");
}

Result<S3Settings> find_s3_settings(const StorageOptions& options, const Surroundings& surroundings) {
  const AwsProfile profile = find_aws_profile(options, surroundings);
  S3Settings settings;
  settings.region = options.text(StorageName::kRegion);
  if (settings.region.empty()) settings.region = surroundings.first_of({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (settings.region.empty()) settings.region = profile.value("region");
  // Any region will do for the first request: the response names the right one.
  if (settings.region.empty()) settings.region = "us-east-1";
  if (!valid_region(settings.region)) {
    return refuse_option("the AWS region contains invalid characters: a region is like us-east-1");
  }
  std::string endpoint = options.text(StorageName::kEndpoint);
  const char* from = "the storage option 'endpoint_url'";
  if (endpoint.empty()) {
    from = "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url of the profile";
    endpoint = surroundings.first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
    if (endpoint.empty()) endpoint = profile.value("endpoint_url");
  }
  HEADRACE_TRY_ASSIGN(settings.endpoint, parse_endpoint(endpoint, from, options));
  if (options.flag(StorageName::kTls) == false && !(settings.endpoint && !settings.endpoint->tls)) {
    return refuse_option("the storage option 'use_ssl' is false: give an 'endpoint_url' that begins with http://");
  }
  HEADRACE_TRY(find_addressing(options, settings));
  settings.requester_pays =
      options.is_on(StorageName::kRequesterPays) ||
      (!options.flag(StorageName::kRequesterPays) && surroundings.secure_getenv("AWS_REQUEST_PAYER") == "requester");
  // Explicitly given keys take precedence over the environment.
  const bool keys = !options.text(StorageName::kKeyId).empty() || !options.text(StorageName::kProfile).empty();
  settings.anonymous = options.flag(StorageName::kAnonymous)
                           .value_or(!keys && is_yes(surroundings.secure_getenv("AWS_NO_SIGN_REQUEST")));
  return settings;
}

Url place_in_bucket(const S3Settings& settings, std::string_view region, std::string_view bucket,
                    std::string_view key) {
  using Addressing = S3Settings::Addressing;
  Url url;
  // A certificate covers only one leading label: buckets with dots, or names invalid in a host, go into the path.
  bool host = std::all_of(bucket.begin(), bucket.end(),
                          [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (settings.endpoint) {
    url = *settings.endpoint;
    while (url.path.ends_with('/')) url.path.pop_back();
    url.path += "/";
    host = host && settings.addressing == Addressing::kHost;
    if (settings.addressing == Addressing::kEndpointIsBucket) {
      append_escaped(url.path, key, true);
      return url;
    }
  } else {
    url.tls = true;
    url.port = 443;
    url.host = "s3." + std::string(region) + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
    host = host && settings.addressing != Addressing::kPath;
  }
  if (host) {
    url.host.insert(0, std::string(bucket) + ".");
  } else {
    append_escaped(url.path, bucket, false);
    url.path += "/";
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

bool valid_region(std::string_view region) noexcept {
  return !region.empty() && region.size() <= 64 && std::all_of(region.begin(), region.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace headrace::http
