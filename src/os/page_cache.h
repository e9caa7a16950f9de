// How much of a file the page cache holds.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace headrace::os {

// Whether a range counts as cached, given its resident pages: at least 15 of 16. Kernels drop single pages of idle
// files, and a reader that goes through the page cache brings them back.
constexpr bool nearly_cached(std::uint64_t resident_pages, std::uint64_t pages) noexcept {
  return resident_pages + (pages >> 4) >= pages;
}

// Which system call answered. cachestat serves owners and those who may write the file. For others mincore(2) claims
// that everything is cached, so it is not used and pages are sampled instead.
enum class CacheWitness : std::uint8_t { kNone, kCachestat, kMincore, kSampled };

struct PageCacheShare {
  CacheWitness witness = CacheWitness::kNone;  // kNone: nothing is known and the counts are 0
  std::uint64_t pages = 0;                     // looked at
  std::uint64_t resident_pages = 0;            // of them in the page cache
  double share() const noexcept {
    return pages == 0 ? 0 : static_cast<double>(resident_pages) / static_cast<double>(pages);
  }
};

// Counts the cached pages of [offset, offset + length) of a file opened for reading. REQUIRES: the file is that long.
// Reads nothing, except that sampling (at most 16 pages) starts read-ahead at missing pages; POSIX_FADV_RANDOM on
// `fd` limits that.
PageCacheShare page_cache_share(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// Cached pages of a range as cachestat(2) counts them, always 0 on an overlay. nullopt if the kernel
// does not report it.
std::optional<std::uint64_t> query_cachestat(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// Whether cachestat(2) works for `fd`: Linux 6.5, not blocked by a sandbox, and a file that the caller
// owns or may write.
bool cachestat_answers(int fd) noexcept;

}  // namespace headrace::os
