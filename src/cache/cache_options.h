// CacheOptions: whether and how data read from a remote store is cached on a local disk. Taken from the storage
// options, otherwise from the environment.
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

// Which cached version of an object is served without a request to its server.
enum class CacheTrust : std::uint8_t {
  kObject,  // a version that the server has named since the store was opened
  kStore,   // also an older version, once the server has responded to anything since the store was opened
};

// What a full cache does.
enum class CachePolicy : std::uint8_t {
  kKeep,    // keeps what it has: a loop over more data than fits then always hits the same part
  kRecent,  // evicts the least recently used segment
};

struct CacheOptions {
  static constexpr std::uint64_t kDefaultBytes = std::uint64_t{64} << 30;
  std::string directory;  // an absolute path
  std::uint64_t most_bytes = kDefaultBytes;
  CacheTrust trust = CacheTrust::kObject;
  CachePolicy policy = CachePolicy::kKeep;
  std::uint64_t max_age_ns = 0;  // 0: until the store is closed
};

// "64G": a number, optionally with K, M, G or T of 1,024 each.
std::optional<std::uint64_t> parse_cache_size(std::string_view text) noexcept;

// Empty if no cache is configured. Ignores other options.
Result<std::optional<CacheOptions>> find_cache_options(std::span<const StorageOption> given);

}  // namespace headrace::cache
