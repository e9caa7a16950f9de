// StorageOptions: the user's options for opening a remote store, under the names that fsspec and obstore use.
//
// Threads: immutable once made.
// Fails:   kInvalidArgument; messages contain names, never values.
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

// One entry per meaning; several option names may map to it.
enum class StorageName : std::uint8_t {
  kAnonymous,
  kKeyId,
  kSecret,
  kSessionToken,
  kBearer,  // a token that is sent in Authorization unchanged
  kProfile,
  kRole,
  kRoleSession,
  kWebIdentityFile,
  kStsEndpoint,
  kEndpoint,
  kRegion,
  kAddressing,     // "path", "virtual" or "auto"
  kVirtualHosted,  // the endpoint is the bucket's own host
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
  kRetries,  // attempts after the first
  kProxy,
  kMaxGap,  // kMaxGap to kHedge shape requests: link_model.h, hedge_policy.h
  kMaxBlock,
  kPartBytes,
  kHedge,
  kMissingAge,      // how long a missing object is not requested again
  kCacheDirectory,  // the kCache options are src/cache's: cache_options.h
  kCacheBytes,
  kCacheTrust,
  kCachePolicy,
  kCacheAge,
  kIgnored  // accepted but without effect: how other libraries cache, split and list
};

class StorageOptions {
 public:
  StorageOptions() = default;
  // Rejects unknown names, ill-formed values, and two names of one meaning with different values.
  static Result<StorageOptions> parse(std::span<const StorageOption> options, StorageService service);

  // Empty if not given.
  const std::string& text(StorageName name) const noexcept;
  std::optional<bool> flag(StorageName name) const noexcept;
  bool is_on(StorageName name) const noexcept { return flag(name).value_or(false); }
  // Nanoseconds for times, bytes for sizes, otherwise the plain number.
  std::optional<std::uint64_t> number(StorageName name) const noexcept;
  // "Name: value"; for plain HTTP only.
  const std::vector<std::string>& headers() const noexcept { return headers_; }

 private:
  struct Value {
    std::string text, option_name;
    std::uint64_t number = 0;
  };
  Status take(const StorageOption& option, StorageService service);
  Status take_header(std::string_view name, std::string_view value);

  std::map<StorageName, Value> values_;
  std::vector<std::string> headers_;
};

inline Status refuse_option(std::string what) { return Status(Code::kInvalidArgument, Layer::kStore, std::move(what)); }

// Whether all characters may appear in a header value: printable ASCII without blanks.
bool is_printable(std::string_view text) noexcept;
// "yes", "true", "1" or "on", in any case.
bool is_yes(std::string_view text);

}  // namespace headrace::http
