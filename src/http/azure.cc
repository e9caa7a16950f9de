#include "http/azure.h"

#include <time.h>

#include <algorithm>

#include "base/base64.h"
#include "http/hmac_sha256.h"
#include "http/request_signer.h"
#include "http/s3_settings.h"

namespace headrace::http {
namespace {

// The last version whose listings do not encode names.
constexpr const char* kVersion = "2020-10-02";

bool valid_account(std::string_view account) {
  return account.size() >= 3 && account.size() <= 24 && std::all_of(account.begin(), account.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

bool valid_container(std::string_view name) {
  if (name == "$root" || name == "$web") return true;
  return name.size() >= 3 && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

std::string lower_name(std::string_view line) {
  std::string name(line.substr(0, line.find(':')));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

std::string field_value(std::string_view line) {
  const std::size_t at = line.find_first_not_of(' ', std::min(line.find(':'), line.size() - 1) + 1);
  return at == std::string_view::npos ? "" : std::string(line.substr(at));
}

std::string http_date(std::int64_t now) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const ::time_t seconds = static_cast<::time_t>(now);
  struct tm parts {};
  ::gmtime_r(&seconds, &parts);
  char numbers[2][32];
  ::strftime(numbers[0], sizeof numbers[0], "%d", &parts);
  ::strftime(numbers[1], sizeof numbers[1], "%Y %H:%M:%S GMT", &parts);
  return std::string(kDays[parts.tm_wday]) + ", " + numbers[0] + " " + kMonths[parts.tm_mon] + " " + numbers[1];
}

// Takes credentials from the options if any are given, otherwise from the environment.
Status find_credentials(const StorageOptions& options, const Surroundings& surroundings, AzureSettings& settings) {
  std::string key = options.text(StorageName::kAccountKey);
  settings.sas = options.text(StorageName::kSas);
  settings.bearer = options.text(StorageName::kBearer);
  settings.anonymous = options.is_on(StorageName::kAnonymous);
  settings.source = "the storage options";
  if (key.empty() && settings.sas.empty() && settings.bearer.empty() && !settings.anonymous) {
    key = surroundings.first_of({"AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"});
    settings.sas = surroundings.first_of({"AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"});
    settings.bearer = surroundings.secure_getenv("AZURE_STORAGE_TOKEN");
    settings.anonymous =
        !options.flag(StorageName::kAnonymous) && is_yes(surroundings.secure_getenv("AZURE_STORAGE_ANON"));
    settings.source = settings.anonymous      ? "AZURE_STORAGE_ANON"
                      : !settings.sas.empty() ? "AZURE_STORAGE_SAS_TOKEN"
                      : !key.empty()          ? "AZURE_STORAGE_KEY"
                                              : "AZURE_STORAGE_TOKEN";
  }
  if (settings.anonymous) {
    settings.sas = settings.bearer = "";
    return {};
  }
  if (!settings.sas.empty()) {
    if (!settings.sas.starts_with('?')) settings.sas.insert(0, "?");
    const auto url = parse_url("https://host/" + settings.sas);
    if (!is_printable(settings.sas) || !url.ok()) {
      return refuse_option("the Azure SAS token contains invalid characters, or is too long");
    }
    settings.sas = url->query;
    return {};
  }
  if (!key.empty()) {
    const auto decoded = base::decode_base64(key);
    if (!decoded || decoded->empty()) return refuse_option("the key of the Azure account is not valid base64");
    settings.key = *decoded;
    return {};
  }
  if (settings.bearer.empty()) {
    settings.use_machine_identity = true;
    settings.source.clear();
    return {};
  }
  if (!is_printable(settings.bearer)) return refuse_option("the Azure token contains invalid characters");
  return {};
}

}  // namespace

Result<AzureSettings> find_azure_settings(const StorageOptions& options, const Surroundings& surroundings,
                                          const std::string& account) {
  AzureSettings settings;
  settings.account = options.text(StorageName::kAccount);
  if (!account.empty() && !settings.account.empty() && account != settings.account) {
    return refuse_option("the URL names another account than the storage option 'account_name'");
  }
  if (!account.empty()) settings.account = account;
  if (settings.account.empty()) {
    settings.account = surroundings.first_of({"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"});
  }
  std::string endpoint = options.text(StorageName::kEndpoint);
  if (endpoint.empty()) endpoint = surroundings.secure_getenv("AZURE_STORAGE_ENDPOINT");
  if (settings.account.empty() && endpoint.empty()) {
    return refuse_option("no Azure account: set AZURE_STORAGE_ACCOUNT, or give account_name in storage_options");
  }
  if (!settings.account.empty() && !valid_account(settings.account)) {
    return refuse_option("the name of the Azure account is not valid: small letters and digits, 3 to 24 of them");
  }
  if (endpoint.empty()) endpoint = settings.account + ".blob.core.windows.net";
  if (endpoint.find("://") == std::string::npos) endpoint.insert(0, "https://");
  HEADRACE_TRY_ASSIGN(const auto url,
                      parse_endpoint(endpoint, "the storage option 'endpoint_url' or AZURE_STORAGE_ENDPOINT", options));
  settings.endpoint = *url;
  while (settings.endpoint.path.ends_with('/')) settings.endpoint.path.pop_back();
  HEADRACE_TRY(find_credentials(options, surroundings, settings));
  if (!settings.sas.empty() || !settings.bearer.empty()) HEADRACE_TRY(check_secret_may_go(settings.endpoint, options));
  if (!settings.key.empty() && settings.account.empty()) {
    return refuse_option("a key of an Azure account needs the account's name: account_name");
  }
  return settings;
}

Result<AzureLocation> parse_azure_location(std::string_view location, const char* scheme) {
  HEADRACE_TRY_ASSIGN(BucketLocation plain, parse_bucket_location(location, scheme));
  AzureLocation found{plain.bucket, plain.prefix, {}};
  if (const std::size_t at = plain.bucket.find('@'); at != std::string::npos) {
    const std::string host = plain.bucket.substr(at + 1);
    found.container = plain.bucket.substr(0, at);
    found.account = host.substr(0, host.find('.'));
    if (host != found.account + ".dfs.core.windows.net" && host != found.account + ".blob.core.windows.net") {
      return refuse_option(std::string(scheme) + "://container@account.dfs.core.windows.net/path names another host");
    }
  }
  if (!valid_container(found.container)) {
    return refuse_option("the name of the container in " + std::string(scheme) + "://container/path is not valid");
  }
  return found;
}

Url AzureDialect::place(std::string_view key) const {
  Url url = settings_.endpoint;
  url.path += "/" + container_;
  if (!key.empty()) {
    url.path += "/";
    append_escaped(url.path, key, true);
  }
  url.query = settings_.sas;
  return url;
}

void AzureDialect::fetch_page(Url& url, std::string_view prefix, std::string_view token) const {
  if (!url.query.empty()) url.query += '&';
  url.query += "comp=list&delimiter=%2F";
  if (!token.empty()) {
    url.query += "&marker=";
    append_escaped(url.query, token, false);
  }
  url.query += "&prefix=";
  append_escaped(url.query, prefix, false);
  url.query += "&restype=container";
}

std::string AzureDialect::text_to_sign(const Url& url, const std::string& account,
                                       const std::vector<std::string>& headers) {
  std::string match, range;
  std::vector<std::string> own;
  for (const std::string& line : headers) {
    const std::string name = lower_name(line);
    if (name == "range") range = field_value(line);
    if (name == "if-match") match = field_value(line);
    if (name.starts_with("x-ms-")) own.push_back(name + ":" + field_value(line) + "\n");
  }
  std::sort(own.begin(), own.end());
  // Encoding, language, length, MD5, type, date and if-modified-since are empty.
  std::string text = "GET\n\n\n\n\n\n\n\n" + match + "\n\n\n" + range + "\n";
  for (const std::string& line : own) text += line;
  text += "/" + account + url.path;
  std::string_view query = url.query;
  std::vector<std::string> parts;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    std::string plain;
    if (part.empty() || !unescape_form(part, plain)) continue;
    const std::size_t equal = std::min(plain.find('='), plain.size());
    parts.push_back("\n" + lower_name(plain.substr(0, equal)) + ":" + plain.substr(std::min(equal + 1, plain.size())));
  }
  std::sort(parts.begin(), parts.end());
  for (const std::string& part : parts) text += part;
  return text;
}

void AzureDialect::authorize(const Url& url, std::int64_t now, const Credentials& who,
                             std::vector<std::string>& headers) {
  headers.push_back(std::string("x-ms-version: ") + kVersion);
  const std::string& bearer = settings_.use_machine_identity ? who.bearer : settings_.bearer;
  if (!bearer.empty()) headers.push_back("Authorization: Bearer " + bearer);
  if (settings_.key.empty()) return;
  headers.push_back("x-ms-date: " + http_date(now));
  const std::string text = text_to_sign(url, settings_.account, headers);
  headers.push_back("Authorization: SharedKey " + settings_.account + ":" +
                    base::encode_base64(as_text(hmac_sha256(settings_.key, text))));
}

}  // namespace headrace::http
