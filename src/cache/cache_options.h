// CacheOptions: whether and how what is read of a remote store is kept on a local disk: storage options, else the
// environment.
//
// Threads: pure functions.
// Fails:   kInvalidArgument, naming the option or variable.
#pragma once

#include <headrace/open_options.h>
#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace headrace::cache {

// Which version of an object is served without asking its server.
enum class CacheTrust : std::uint8_t {
  kObject,  // one that the server has named since the store was opened
  kStore,   // one of before as well, once the server has answered anything since the store was opened
};

// What becomes of a full cache.
enum class CachePolicy : std::uint8_t {
  kKeep,    // what is there stays: of a loop over too much data the same part is always there
  kRecent,  // the segment that was not used for longest goes
};

struct CacheOptions {
  static constexpr std::uint64_t kDefaultBytes = std::uint64_t{64} << 30;
  std::string directory;  // absolute
  std::uint64_t most_bytes = kDefaultBytes;
  CacheTrust trust = CacheTrust::kObject;
  CachePolicy policy = CachePolicy::kKeep;
  std::uint64_t max_age_ns = 0;  // 0: until the store is closed
};

// "64G": a number, and K, M, G or T of 1,024 each.
std::optional<std::uint64_t> parse_cache_size(std::string_view text) noexcept;

// Nothing where there is no cache. Options of other names are passed over.
Result<std::optional<CacheOptions>> find_cache_options(std::span<const StorageOption> given);

}  // namespace headrace::cache
