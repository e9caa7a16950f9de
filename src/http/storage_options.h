// StorageOptions: what a user says of a remote store when it is opened, by the names of fsspec and of obstore.
//
// Threads: immutable once made.
// Fails:   kInvalidArgument, with messages that have names and never values.
#pragma once

#include <headrace/open_options.h>
#include <headrace/status.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace::http {

enum class StorageService : std::uint8_t { kHttp = 1, kS3 = 2, kGoogle = 4, kAzure = 8 };

// One meaning, whatever it is called.
enum class StorageName : std::uint8_t {
  kAnonymous,
  kKeyId,
  kSecret,
  kSessionToken,
  kBearer,  // a token that goes into Authorization as it is
  kProfile,
  kRole,
  kRoleSession,
  kWebIdentityFile,
  kStsEndpoint,
  kEndpoint,
  kRegion,
  kAddressing,     // "path", "virtual" or "auto"
  kVirtualHosted,  // the endpoint is the bucket's own
  kRequesterPays,
  kAccount,
  kAccountKey,
  kSas,
  kCertificates,  // a file, or "true"
  kTls,
  kAllowHttp,
  kConnectSeconds,
  kIdleSeconds,
  kTotalSeconds,
  kConnections,
  kRetries,  // after the first attempt
  kProxy,
  kMostGap,  // how ranges are asked for: link_model.h
  kMostBlock,
  kPartBytes,
  kHedge,
  kMissingAge,      // for how long what is not there is not asked for again
  kCacheDirectory,  // these are src/cache's: cache_options.h
  kCacheBytes,
  kCacheTrust,
  kCachePolicy,
  kCacheAge,
  kIgnored  // says nothing to headrace: how other libraries cache, split and list
};

class StorageOptions {
 public:
  StorageOptions() = default;
  // Refuses names that the service does not have, values that are not of their kind, and two names of one meaning with
  // different values.
  static Result<StorageOptions> parse(std::span<const StorageOption> options, StorageService service);

  // Empty where it was not given.
  const std::string& text(StorageName name) const noexcept;
  std::optional<bool> flag(StorageName name) const noexcept;
  bool is_on(StorageName name) const noexcept { return flag(name).value_or(false); }
  // Nanoseconds of times, bytes of sizes, else a number.
  std::optional<std::uint64_t> number(StorageName name) const noexcept;
  // "Name: value", of plain HTTP.
  const std::vector<std::string>& headers() const noexcept { return headers_; }

 private:
  struct Value {
    std::string text, given_as;
    std::uint64_t number = 0;
  };
  Status take(const StorageOption& option, StorageService service);
  Status take_header(std::string_view name, std::string_view value);

  std::map<StorageName, Value> values_;
  std::vector<std::string> headers_;
};

inline Status refuse_option(std::string what) { return Status(Code::kInvalidArgument, Layer::kStore, std::move(what)); }

// Characters of header lines: no control characters, no blanks, nothing beyond ASCII.
bool is_printable(std::string_view text) noexcept;
// "yes", "true", "1", "on", whatever the case.
bool said_yes(std::string_view text);

}  // namespace headrace::http
