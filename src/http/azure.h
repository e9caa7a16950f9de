// Azure's blob service: where a container is, who asks, and how it is asked.
//
// Threads: every call from any thread.
// Fails:   messages name options and variables, never what they hold.
#pragma once

#include <optional>
#include <string>

#include "http/bucket_store.h"
#include "http/storage_options.h"
#include "http/surroundings.h"

namespace headrace::http {

struct AzureSettings {
  std::string account;
  Url endpoint;            // of the account
  std::string key;         // of the account, decoded: requests are signed with it
  std::string sas;         // a query that is signed, without '?'
  std::string bearer;      // a token
  bool anonymous = false;  // none of them
  // None of them was found, and nobody has said that nobody shall ask: obtain_azure_credentials() finds a token.
  bool of_machine = false;
  std::string source;  // where they come from, by name
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
  void ask_page(Url& url, std::string_view prefix, std::string_view token) const override;
  bool parse_page(std::string_view text, ObjectPage& page) const override { return parse_azure_page(text, page); }
  void authorize(const Url& url, std::int64_t now, const Credentials& who, std::vector<std::string>& headers) override;

  // What a signature of an account's key is made of: the request as Azure puts it in order.
  static std::string text_to_sign(const Url& url, const std::string& account, const std::vector<std::string>& headers);

 private:
  const std::string url_, container_;
  const AzureSettings settings_;
};

}  // namespace headrace::http
