// Azure Blob Storage: locates a container and builds and authorises requests to it.
//
// Threads: every call from any thread.
// Fails:   messages name options and variables, never their values.
#pragma once

#include <optional>
#include <string>

#include "http/bucket_store.h"
#include "http/storage_options.h"
#include "http/surroundings.h"

namespace headrace::http {

struct AzureSettings {
  std::string account;
  Url endpoint;            // the account's
  std::string key;         // the account's key, decoded; signs requests
  std::string sas;         // a signed query, without '?'
  std::string bearer;      // a bearer token
  bool anonymous = false;  // requests carry no credentials
  // None of the above was given: obtain_azure_credentials() obtains a token.
  bool use_machine_identity = false;
  std::string source;  // where the credentials come from, by name
};

Result<AzureSettings> find_azure_settings(const StorageOptions& options, const Surroundings& surroundings,
                                          const std::string& account);

// "container/prefix" or "container@account.dfs.core.windows.net/prefix".
struct AzureLocation {
  std::string container, prefix, account;
};
Result<AzureLocation> parse_azure_location(std::string_view location, const char* scheme);

class AzureDialect final : public BucketDialect {
 public:
  AzureDialect(std::string url, std::string container, AzureSettings settings)
      : url_(std::move(url)), container_(std::move(container)), settings_(std::move(settings)) {}

  std::string url() const override { return url_; }
  ServiceKind kind() const noexcept override { return ServiceKind::kAzure; }
  bool has_suffix_ranges() const noexcept override { return false; }
  Url place(std::string_view key) const override;
  void fetch_page(Url& url, std::string_view prefix, std::string_view token) const override;
  bool parse_page(std::string_view text, ObjectPage& page) const override { return parse_azure_page(text, page); }
  void authorize(const Url& url, std::int64_t now, const Credentials& who, std::vector<std::string>& headers) override;

  // The string that an account key signs: the request in Azure's canonical form.
  static std::string text_to_sign(const Url& url, const std::string& account, const std::vector<std::string>& headers);

 private:
  const std::string url_, container_;
  const AzureSettings settings_;
};

}  // namespace headrace::http
