#include "http/google.h"

#include "http/cloud_signs.h"
#include "http/credential_answers.h"
#include "http/google_files.h"

namespace headrace::http {
namespace {

Result<Credentials> of_token(const std::string& token, const char* source) {
  if (!is_printable(token)) return refuse_option("the Google token contains invalid characters");
  Credentials found;
  found.bearer = token;
  found.source = source;
  return found;
}

// `is_explicit`: an option explicitly selects the machine's credentials.
Result<Credentials> use_machine_identity(bool is_explicit, const Surroundings& surroundings, const Fetch& fetch,
                                         std::int64_t now) {
  std::string host = surroundings.first_of({"GCE_METADATA_HOST", "GCE_METADATA_IP"});
  is_explicit = is_explicit || !host.empty();
  // Elsewhere the host name may not resolve, and a failing lookup can take longer than the request itself.
  const bool named = is_explicit || find_cloud_sign(CloudVendor::kGoogle, surroundings) == CloudSign::kIsThere;
  if (host.empty()) host = named ? "metadata.google.internal" : "169.254.169.254";
  const auto url = parse_url("http://" + host + "/computeMetadata/v1/instance/service-accounts/default/token");
  if (!url.ok()) return refuse_option("GCE_METADATA_HOST is not a host name");
  FetchQuestion question;
  question.url = *url;
  question.headers = {"Metadata-Flavor: Google"};
  question.total_ns = 3'000'000'000;
  question.attempts = 1;
  question.direct = true;
  const auto say = [](const char* what) { return Status(Code::kPermission, Layer::kStore, what); };
  auto answer =
      query_cloud({CloudVendor::kGoogle, is_explicit, "GCE_METADATA_HOST", question}, surroundings, fetch, now);
  if (!answer.ok() || answer->status != 200) {
    return say("no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_OAUTH_ACCESS_TOKEN, give token, or "
               "key and secret, in storage_options, or anon to read a public bucket")
        .with_cause("the machine's metadata service returned no token: " +
                    (answer.ok() ? "HTTP " + std::to_string(answer->status) : answer.status().message()));
  }
  auto found = parse_json_token(answer->body, now);
  if (!found) return say("the machine's metadata service sent a response without a token");
  found->source = "the machine's metadata service";
  return *found;
}

// Google's application default credentials: the named file, gcloud's file, then the machine.
Result<Credentials> of_default(const Surroundings& surroundings, const Fetch& fetch, std::int64_t now) {
  const std::string named = surroundings.secure_getenv("GOOGLE_APPLICATION_CREDENTIALS");
  if (!named.empty()) {
    return obtain_google_file_credentials(named, "GOOGLE_APPLICATION_CREDENTIALS", surroundings, fetch, now);
  }
  const std::string default_path = gcloud_file(surroundings);
  if (!default_path.empty() && surroundings.file(default_path)) {
    return obtain_google_file_credentials(default_path, "gcloud auth application-default login", surroundings, fetch,
                                          now);
  }
  return use_machine_identity(false, surroundings, fetch, now);
}

}  // namespace

Result<S3Settings> find_google_settings(const StorageOptions& options, const Surroundings& surroundings) {
  S3Settings settings;
  settings.region = "auto";
  settings.addressing = S3Settings::Addressing::kPath;
  std::string endpoint = options.text(StorageName::kEndpoint);
  if (endpoint.empty()) endpoint = surroundings.secure_getenv("STORAGE_EMULATOR_HOST");
  if (endpoint.empty()) endpoint = "https://storage.googleapis.com";
  if (endpoint.find("://") == std::string::npos) endpoint.insert(0, "http://");  // as Google's tools interpret it
  HEADRACE_TRY_ASSIGN(settings.endpoint,
                      parse_endpoint(endpoint, "the storage option 'endpoint_url' or STORAGE_EMULATOR_HOST", options));
  settings.anonymous = options.is_on(StorageName::kAnonymous) || options.text(StorageName::kBearer) == "anon";
  return settings;
}

Result<Credentials> obtain_google_credentials(const StorageOptions& options, const Surroundings& surroundings,
                                              const Fetch& fetch, std::int64_t now) {
  const auto hmac = [](AwsKeys keys, const char* source) -> Result<Credentials> {
    if (!is_printable(keys.id) || !is_printable(keys.secret)) {
      return refuse_option("Google's HMAC key contains invalid characters");
    }
    Credentials found;
    found.keys = std::move(keys);
    found.source = source;
    return found;
  };
  const AwsKeys given{options.text(StorageName::kKeyId), options.text(StorageName::kSecret), {}};
  if (given.id.empty() != given.secret.empty()) {
    return refuse_option("the storage options 'key' and 'secret' belong together");
  }
  const std::string& token = options.text(StorageName::kBearer);
  if (!given.id.empty() && !token.empty()) return refuse_option("the storage options have a key and a token: give one");
  if (!given.id.empty()) return hmac(given, "the storage options 'key' and 'secret'");
  if (token == "cloud") return use_machine_identity(true, surroundings, fetch, now);
  if (token == "google_default") return of_default(surroundings, fetch, now);
  if (token.ends_with(".json") || token.find('/') == 0) {
    return obtain_google_file_credentials(token, "the storage option 'token'", surroundings, fetch, now);
  }
  if (token == "cache" || token == "browser") {
    return Status(Code::kUnsupported, Layer::kStore,
                  "the storage option 'token' names a method that is not supported: give an access token (gcloud auth "
                  "print-access-token), a file of credentials, 'google_default', 'cloud' or 'anon'");
  }
  if (!token.empty()) return of_token(token, "the storage option 'token'");
  const std::string set = surroundings.secure_getenv("GOOGLE_OAUTH_ACCESS_TOKEN");
  if (!set.empty()) return of_token(set, "GOOGLE_OAUTH_ACCESS_TOKEN");
  const AwsKeys keys{
      surroundings.secure_getenv("GS_ACCESS_KEY_ID"), surroundings.secure_getenv("GS_SECRET_ACCESS_KEY"), {}};
  if (!keys.id.empty() && !keys.secret.empty()) return hmac(keys, "GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY");
  return of_default(surroundings, fetch, now);
}

}  // namespace headrace::http
