// KeyedHash: 128 bits that identify a range of an object in a cache directory: SipHash-2-4 with the directory's secret.
//
// Object names are chosen by whoever writes a bucket. Without the secret they can neither produce two names with one
// hash nor object data that passes for a record of the cache.
//
// Threads: const calls from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace::cache {

struct CacheKey {
  std::uint64_t low = 0, high = 0;
  bool operator==(const CacheKey&) const = default;
};

using CacheSecret = std::array<std::uint64_t, 2>;

class KeyedHash {
 public:
  explicit KeyedHash(const CacheSecret& secret) noexcept : secret_(secret) {}
  CacheKey of(std::string_view text) const noexcept;
  // The hash of `parent` combined with two numbers.
  CacheKey of(const CacheKey& parent, std::uint64_t first, std::uint64_t second) const noexcept;
  // The hash of `parent` combined with a name.
  CacheKey of(const CacheKey& parent, std::string_view name) const noexcept;

 private:
  CacheSecret secret_;
};

}  // namespace headrace::cache
