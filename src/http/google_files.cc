#include "http/google_files.h"

#include "base/base64.h"
#include "base/json.h"
#include "http/credential_answers.h"
#include "http/rsa_signature.h"
#include "http/storage_options.h"

namespace headrace::http {
namespace {

constexpr const char* kTokenService = "https://oauth2.googleapis.com/token";
constexpr const char* kReadScope = "https://www.googleapis.com/auth/devstorage.read_only";
constexpr std::size_t kMaxFileJson = 64 << 10;
constexpr std::size_t kMaxJsonValues = 1 << 20;
constexpr std::int64_t kAssertionSeconds = 3600;

std::string json_text(const base::Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string base64_of_urls(std::string_view bytes) {
  std::string text = base::encode_base64(bytes);
  while (text.ends_with('=')) text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

void add_form_field(std::string& form, const char* name, std::string_view value) {
  form += std::string(form.empty() ? "" : "&") + name + "=";
  append_escaped(form, value, false);
}

// The JWT assertion that authenticates the account (RFC 7523).
Result<std::string> signed_assertion(const base::Json& file, const std::string& audience, std::int64_t now) {
  base::Json head = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (const std::string id = json_text(file, "private_key_id"); !id.empty()) head["kid"] = id;
  const base::Json claims = {{"iss", json_text(file, "client_email")},
                             {"scope", kReadScope},
                             {"aud", audience},
                             {"iat", now},
                             {"exp", now + kAssertionSeconds}};
  std::string text = base64_of_urls(head.dump()) + "." + base64_of_urls(claims.dump());
  HEADRACE_TRY_ASSIGN(const std::string signature, sign_rs256(json_text(file, "private_key"), text));
  return text + "." + base64_of_urls(signature);
}

}  // namespace

std::string gcloud_file(const Surroundings& surroundings) {
  constexpr const char* kName = "/application_default_credentials.json";
  const std::string folder = surroundings.secure_getenv("CLOUDSDK_CONFIG");
  if (!folder.empty()) return folder + kName;
  const std::string home = surroundings.secure_getenv("HOME");
  return home.empty() ? std::string() : home + "/.config/gcloud" + kName;
}

Result<Credentials> obtain_google_file_credentials(const std::string& path, const std::string& named,
                                                   const Surroundings& surroundings, const Fetch& fetch,
                                                   std::int64_t now) {
  const auto say = [&](Code code, const std::string& what) {
    return Status(code, Layer::kStore, "the file of " + named + " " + what);
  };
  const auto text = surroundings.file(path);
  if (!text) return say(Code::kPermission, "cannot be read, or is not a file of at most 1 MiB");
  // The parser's message is dropped: it may quote the file.
  const auto file = base::parse_json(*text, {kMaxFileJson, 8, kMaxJsonValues});
  if (!file.ok() || !file->is_object()) return say(Code::kInvalidArgument, "is not JSON of Google's credentials");
  const std::string kind = json_text(*file, "type");
  if (kind == "external_account" || kind == "impersonated_service_account" ||
      kind == "external_account_authorized_user" || kind == "gdch_service_account") {
    return say(Code::kUnsupported, "is of type " + kind +
                                       ", which is not supported: set GOOGLE_OAUTH_ACCESS_TOKEN to what gcloud auth "
                                       "application-default print-access-token prints");
  }
  std::string address = json_text(*file, "token_uri");
  if (address.empty()) address = kTokenService;
  const auto service = parse_url(address);
  if (!service.ok() || (!service->tls && !is_loopback(*service))) {
    return say(Code::kInvalidArgument, "has a token_uri that is not an https URL");
  }
  FetchQuestion question;
  question.method = "POST";
  question.url = *service;
  question.headers.push_back("content-type: application/x-www-form-urlencoded");
  std::string who;
  if (kind == "service_account") {
    who = "a service account";
    if (json_text(*file, "client_email").empty() || json_text(*file, "private_key").empty()) {
      return say(Code::kInvalidArgument, "has no client_email and private_key");
    }
    auto assertion = signed_assertion(*file, address, now);
    if (!assertion.ok()) {
      return say(assertion.status().code(), "cannot be used to sign").with_cause(assertion.status().message());
    }
    add_form_field(question.body, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
    add_form_field(question.body, "assertion", *assertion);
  } else if (kind == "authorized_user") {
    who = "a user";
    const std::string id = json_text(*file, "client_id"), secret = json_text(*file, "client_secret"),
                      token = json_text(*file, "refresh_token");
    if (id.empty() || secret.empty() || token.empty()) {
      return say(Code::kInvalidArgument, "has no client_id, client_secret and refresh_token");
    }
    add_form_field(question.body, "grant_type", "refresh_token");
    add_form_field(question.body, "client_id", id);
    add_form_field(question.body, "client_secret", secret);
    add_form_field(question.body, "refresh_token", token);
  } else {
    return say(Code::kInvalidArgument, "has an unknown type: service_account and authorized_user are supported");
  }
  auto answer = fetch(question);
  const std::string asked = "Google's token service";
  if (!answer.ok()) {
    return Status(answer.status().code(), Layer::kStore, asked + " cannot be queried")
        .with_cause(answer.status().message());
  }
  if (answer->status != 200) {
    return Status(Code::kPermission, Layer::kStore,
                  asked + " returned no token for " + who + ", by the file of " + named +
                      (kind == "authorized_user" ? ": gcloud auth application-default login" : ""))
        .with_cause("HTTP " + std::to_string(answer->status));
  }
  auto found = parse_json_token(answer->body, now);
  if (!found) return Status(Code::kIo, Layer::kStore, asked + " sent a response without a token");
  found->source = who + " of Google's, by the file of " + named;
  return *std::move(found);
}

}  // namespace headrace::http
