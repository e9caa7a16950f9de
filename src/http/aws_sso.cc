#include "http/aws_sso.h"

#include <algorithm>

#include "http/credential_answers.h"
#include "http/sha1.h"

namespace headrace::http {
namespace {

// Whether `text` is a valid account or role name.
bool is_sso_word(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("+=,.@_-").find(c) != std::string_view::npos;
  });
}

struct SsoPlace {
  std::string key;  // the name from which the token file's name is derived
  std::string region, account, role;
};

Result<SsoPlace> find_sso_place(const AwsProfile& profile, const std::string& name) {
  const auto refuse = [&](const char* what) { return refuse_option("profile '" + name + "' " + what); };
  const std::string session = profile.value(name, "sso_session");
  const std::string section = "sso-session " + session;
  SsoPlace place;
  std::string start;
  if (session.empty()) {
    start = profile.value(name, "sso_start_url");
    place.region = profile.value(name, "sso_region");
    place.key = start;
  } else {
    if (!has_ini_section(profile.config, section)) return refuse("names an sso_session that does not exist");
    start = ini_value(profile.config, section, "sso_start_url");
    place.region = ini_value(profile.config, section, "sso_region");
    place.key = session;
  }
  if (start.empty() || !valid_region(place.region)) return refuse("has no valid sso_start_url and sso_region");
  place.account = profile.value(name, "sso_account_id");
  place.role = profile.value(name, "sso_role_name");
  if (!is_sso_word(place.account) || !is_sso_word(place.role)) {
    return refuse("has no valid sso_account_id and sso_role_name");
  }
  return place;
}

}  // namespace

bool has_sso(const AwsProfile& profile, const std::string& name) {
  return !profile.value(name, "sso_session").empty() || !profile.value(name, "sso_start_url").empty();
}

Result<Credentials> obtain_sso_credentials(const AwsProfile& profile, const std::string& name,
                                           const Surroundings& surroundings, const Fetch& fetch, std::int64_t now) {
  HEADRACE_TRY_ASSIGN(const SsoPlace place, find_sso_place(profile, name));
  const auto say = [&](const char* what) {
    return Status(
        Code::kPermission, Layer::kStore,
        std::string("the single sign-on of profile '") + name + "' " + what + ": aws sso login --profile " + name);
  };
  const std::string home = surroundings.secure_getenv("HOME");
  const auto text =
      home.empty() ? std::nullopt : surroundings.file(home + "/.aws/sso/cache/" + sha1_hex(place.key) + ".json");
  if (!text) return say("has not been done");
  const auto token = parse_sso_token(*text);
  if (!token) return say("has left a file that contains no token");
  if (token->expires <= now) return say("has expired");

  std::string address = surroundings.secure_getenv("AWS_ENDPOINT_URL_SSO");
  if (address.empty()) {
    address = "https://portal.sso." + place.region + ".amazonaws.com" + (place.region.starts_with("cn-") ? ".cn" : "");
  }
  FetchQuestion question;
  HEADRACE_TRY_ASSIGN(const auto url, parse_endpoint(address, "AWS_ENDPOINT_URL_SSO", StorageOptions()));
  question.url = *url;
  if (!question.url.tls && !is_loopback(question.url)) {
    return refuse_option(
        "the service of single sign-on must be queried by https, but AWS_ENDPOINT_URL_SSO is not an https URL");
  }
  while (question.url.path.ends_with('/')) question.url.path.pop_back();
  question.url.path += "/federation/credentials";
  question.url.query = "account_id=";
  append_escaped(question.url.query, place.account, false);
  question.url.query += "&role_name=";
  append_escaped(question.url.query, place.role, false);
  question.headers.push_back("x-amz-sso_bearer_token: " + token->bearer);
  auto answer = fetch(question);
  const std::string who = "AWS's service of single sign-on";
  if (!answer.ok()) {
    return Status(answer.status().code(), Layer::kStore, who + " cannot be queried")
        .with_cause(answer.status().message());
  }
  if (answer->status == 401) return say("is no longer accepted");
  if (answer->status != 200) {
    return Status(Code::kPermission, Layer::kStore,
                  who + " returned no keys for the account and the role of profile '" + name + "'")
        .with_cause("HTTP " + std::to_string(answer->status));
  }
  auto found = parse_sso_keys(answer->body);
  if (!found) return Status(Code::kIo, Layer::kStore, who + " sent a response without keys");
  if (found->expires <= now) {
    return Status(Code::kPermission, Layer::kStore,
                  who + " returned keys that have expired: is this machine's clock right?");
  }
  found->source = "the single sign-on of profile '" + name + "'";
  return *std::move(found);
}

}  // namespace headrace::http
