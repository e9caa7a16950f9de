// How much of a file the page cache holds.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace headrace::os {

// Who answered. The kernel tells owners and those who may write a file; for others mincore(2) says that everything is
// there, so it is not asked, and pages are tried one by one instead.
// Whether a range of which so many pages are there counts as cached: 15 of 16. Kernels drop single pages of files that
// rest, and whoever reads the range through the cache brings them back.
constexpr bool nearly_cached(std::uint64_t resident_pages, std::uint64_t pages) noexcept {
  return resident_pages + (pages >> 4) >= pages;
}

enum class CacheWitness : std::uint8_t { kNone, kCachestat, kMincore, kSampled };

struct PageCacheShare {
  CacheWitness witness = CacheWitness::kNone;  // kNone: nothing is known and the counts are 0
  std::uint64_t pages = 0;                     // looked at
  std::uint64_t resident_pages = 0;            // of them in the page cache
  double share() const noexcept {
    return pages == 0 ? 0 : static_cast<double>(resident_pages) / static_cast<double>(pages);
  }
};

// The pages of [offset, offset + length) of a file opened for reading; REQUIRES that the file is that long. Nothing is
// read, except that sampling (16 pages at most) starts read-ahead where a page is missing; POSIX_FADV_RANDOM on `fd`
// keeps that small.
PageCacheShare page_cache_share(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// Pages of a range in the cache, as cachestat(2) counts them: 0 on an overlay, whatever is there. nullopt where the
// kernel does not tell.
std::optional<std::uint64_t> ask_cachestat(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// Whether cachestat(2) answers for `fd`: Linux 6.5, not forbidden by a sandbox, and a file the caller owns or may
// write.
bool cachestat_answers(int fd) noexcept;

}  // namespace headrace::os
