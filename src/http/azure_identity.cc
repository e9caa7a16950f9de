#include "http/azure_identity.h"

#include <algorithm>

#include "http/cloud_signs.h"
#include "http/credential_answers.h"
#include "os/proc_text.h"

namespace headrace::http {
namespace {

constexpr const char* kStorage = "https://storage.azure.com/";
constexpr const char* kNobody =
    "no Azure credentials: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, give account_key, sas_token or "
    "bearer_token in storage_options, or anon to read a public container";

Status no_identity(const std::string& what) { return Status(Code::kPermission, Layer::kStore, what); }

// Parses a service's response to a token request.
Result<Credentials> token_of(const Result<FetchAnswer>& answer, const std::string& who, std::int64_t now) {
  if (!answer.ok()) {
    return Status(answer.status().code(), Layer::kStore, who + " cannot be queried")
        .with_cause(answer.status().message());
  }
  if (answer->status != 200) {
    return no_identity(who + " returned no token").with_cause("HTTP " + std::to_string(answer->status));
  }
  auto found = parse_json_token(answer->body, now);
  if (!found) return Status(Code::kIo, Layer::kStore, who + " sent a response without a token");
  found->source = who;
  return *std::move(found);
}

bool is_identity(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// Kubernetes: exchanges a token signed by the cluster for one of Microsoft Entra ID.
Result<Credentials> of_workload(const std::string& path, const Surroundings& surroundings, const Fetch& fetch,
                                std::int64_t now) {
  const std::string client = surroundings.secure_getenv("AZURE_CLIENT_ID"),
                    tenant = surroundings.secure_getenv("AZURE_TENANT_ID");
  if (!is_identity(client) || !is_identity(tenant)) {
    return refuse_option("AZURE_FEDERATED_TOKEN_FILE needs a valid AZURE_CLIENT_ID and AZURE_TENANT_ID");
  }
  const auto text = surroundings.file(path);
  const std::string token(os::trimmed(text ? std::string_view(*text) : std::string_view()));
  if (token.empty() || token.size() > kMaxCredentialBytes || !is_printable(token)) {
    return no_identity("the file of AZURE_FEDERATED_TOKEN_FILE does not exist, or contains no token");
  }
  std::string authority = surroundings.secure_getenv("AZURE_AUTHORITY_HOST");
  if (authority.empty()) authority = "https://login.microsoftonline.com";
  const auto url = parse_url(authority);
  if (!url.ok() || !url->query.empty() || (!url->tls && !is_loopback(*url))) {
    return refuse_option("AZURE_AUTHORITY_HOST is not an https URL");
  }
  FetchQuestion question;
  question.method = "POST";
  question.url = *url;
  while (question.url.path.ends_with('/')) question.url.path.pop_back();
  question.url.path += "/" + tenant + "/oauth2/v2.0/token";
  question.headers.push_back("content-type: application/x-www-form-urlencoded");
  question.body = "grant_type=client_credentials&client_id=" + client +
                  "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&scope=";
  append_escaped(question.body, std::string(kStorage) + ".default", false);
  question.body += "&client_assertion=";
  append_escaped(question.body, token, false);
  return token_of(fetch(question), "the workload's identity (AZURE_FEDERATED_TOKEN_FILE)", now);
}

void add_query(Url& url, const char* name, const std::string& value) {
  if (value.empty()) return;
  url.query += std::string(url.query.empty() ? "" : "&") + name + "=";
  append_escaped(url.query, value, false);
}

// App Service, Functions and Container Apps provide an endpoint and a secret header value.
Result<Credentials> of_application(const std::string& address, const Surroundings& surroundings, const Fetch& fetch,
                                   std::int64_t now) {
  const std::string word = surroundings.secure_getenv("IDENTITY_HEADER");
  if (word.empty()) {
    return Status(Code::kUnsupported, Layer::kStore,
                  "IDENTITY_ENDPOINT without IDENTITY_HEADER, as of Azure Arc, is not supported: give bearer_token");
  }
  const auto url = parse_url(address);
  if (!url.ok() || !is_printable(word)) return refuse_option("IDENTITY_ENDPOINT or IDENTITY_HEADER is not valid");
  const bool of_link =
      url->host.starts_with("169.254.") && url->host.find_first_not_of("0123456789.") == std::string::npos;
  const bool near = is_loopback(*url) || of_link;
  if (!url->tls && !near) return refuse_option("IDENTITY_ENDPOINT is neither https nor an address of this machine");
  FetchQuestion question;
  question.url = *url;
  question.direct = !url->tls;
  question.total_ns = 5'000'000'000;
  add_query(question.url, "api-version", "2019-08-01");
  add_query(question.url, "resource", kStorage);
  add_query(question.url, "client_id", surroundings.secure_getenv("AZURE_CLIENT_ID"));
  question.headers.push_back("X-IDENTITY-HEADER: " + word);
  return token_of(fetch(question), "the application's identity (IDENTITY_ENDPOINT)", now);
}

Result<Credentials> of_virtual_machine(const Surroundings& surroundings, const Fetch& fetch, std::int64_t now) {
  const std::string host = surroundings.secure_getenv("AZURE_POD_IDENTITY_AUTHORITY_HOST");
  const auto url = parse_url(host.empty() ? "http://169.254.169.254" : host);
  if (!url.ok() || !url->query.empty()) return refuse_option("AZURE_POD_IDENTITY_AUTHORITY_HOST is not a valid URL");
  FetchQuestion question;
  question.url = *url;
  while (question.url.path.ends_with('/')) question.url.path.pop_back();
  question.url.path += "/metadata/identity/oauth2/token";
  question.direct = true;
  question.total_ns = 3'000'000'000;
  question.attempts = 1;
  add_query(question.url, "api-version", "2018-02-01");
  add_query(question.url, "resource", kStorage);
  add_query(question.url, "client_id", surroundings.secure_getenv("AZURE_CLIENT_ID"));
  question.headers.push_back("Metadata: true");
  const auto answer = query_cloud({CloudVendor::kAzure, !host.empty(), "AZURE_POD_IDENTITY_AUTHORITY_HOST", question},
                                  surroundings, fetch, now);
  return token_of(answer, "the machine's identity (metadata service)", now);
}

}  // namespace

Result<Credentials> obtain_azure_credentials(const StorageOptions&, const Surroundings& surroundings,
                                             const Fetch& fetch, std::int64_t now) {
  const std::string file = surroundings.secure_getenv("AZURE_FEDERATED_TOKEN_FILE");
  if (!file.empty()) return of_workload(file, surroundings, fetch, now);
  const std::string address = surroundings.secure_getenv("IDENTITY_ENDPOINT");
  if (!address.empty()) return of_application(address, surroundings, fetch, now);
  auto found = of_virtual_machine(surroundings, fetch, now);
  if (found.ok()) return found;
  if (found.status().code() == Code::kInvalidArgument) return found;
  const std::string why = found.status().cause().empty() ? "" : ": " + std::string(found.status().cause());
  return no_identity(kNobody).with_cause(std::string(found.status().message()) + why);
}

}  // namespace headrace::http
