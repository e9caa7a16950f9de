#include "os/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "base/checked.h"
#include "base/fault.h"
#include "os/file_mapping.h"
#include "os/filesystem.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace headrace::os {
namespace {

#ifdef SYS_cachestat
constexpr long kCachestat = SYS_cachestat;
#else
constexpr long kCachestat = 451;  // the same on every architecture
#endif
constexpr std::uint64_t kSamples = 16;
constexpr std::size_t kPagesPerWindow = 16384;

bool mincore_is_honest(int fd) noexcept {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return false;
  if (info.st_uid == ::geteuid()) return true;
  char name[48];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  return ::faccessat(AT_FDCWD, name, W_OK, AT_EACCESS) == 0;
}

std::optional<std::uint64_t> query_mincore(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
  unsigned char present[kPagesPerWindow];
  const std::uint64_t window = kPagesPerWindow * page_bytes();
  std::uint64_t resident = 0;
  for (std::uint64_t at = base::align_down(offset, page_bytes()); at < offset + length; at += window) {
    const auto bytes = static_cast<std::size_t>(std::min(window, offset + length - at));
    // The mapping is never accessed, so a file that shrinks meanwhile raises no SIGBUS.
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
    if (memory == MAP_FAILED) return std::nullopt;
    const int result = ::mincore(memory, bytes, present);
    ::munmap(memory, bytes);
    if (result != 0) return std::nullopt;
    const std::size_t pages = base::ceil_div<std::size_t>(bytes, page_bytes());
    resident +=
        static_cast<std::uint64_t>(std::count_if(present, present + pages, [](auto p) { return (p & 1) != 0; }));
  }
  return resident;
}

PageCacheShare sample(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
  PageCacheShare out;
  const std::uint64_t pages = base::ceil_div(length, page_bytes()), wanted = std::min(kSamples, pages);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    char byte;
    const iovec vec{&byte, 1};
    const std::uint64_t at = offset + pages * i / wanted * page_bytes();
    const ssize_t got = ::preadv2(fd, &vec, 1, static_cast<off_t>(at), RWF_NOWAIT);
    if (got < 0 && errno != EAGAIN) return {};
    ++out.pages;
    if (got == 1) ++out.resident_pages;
  }
  if (wanted > 0) out.witness = CacheWitness::kSampled;
  return out;
}

}  // namespace

std::optional<std::uint64_t> query_cachestat(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
  // struct cachestat_range and struct cachestat of linux/mman.h, which older headers lack.
  struct {
    std::uint64_t offset, length;
  } range{offset, length};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } stat{};
  std::int64_t result = ::syscall(kCachestat, fd, &range, &stat, 0u);
  if (result < 0) result = -errno;
  result = HEADRACE_FAULT("base.cachestat", result);
  if (result < 0) return std::nullopt;
  return stat.cached;
}

PageCacheShare page_cache_share(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
  if (length == 0) return {};
  PageCacheShare out;
  out.pages = base::ceil_div(offset + length, page_bytes()) - offset / page_bytes();
  // On an overlay cachestat always answers 0: the descriptor's own inode has no pages, only the underlying one. A
  // mapping refers to the underlying inode.
  if (!filesystem_kind(fd).is_overlay) {
    if (const auto resident = query_cachestat(fd, offset, length)) {
      out.witness = CacheWitness::kCachestat;
      out.resident_pages = std::min(*resident, out.pages);
      return out;
    }
  }
  if (mincore_is_honest(fd)) {
    if (const auto resident = query_mincore(fd, offset, length)) {
      out.witness = CacheWitness::kMincore;
      out.resident_pages = std::min(*resident, out.pages);
      return out;
    }
  }
  return sample(fd, offset, length);
}

bool cachestat_answers(int fd) noexcept { return query_cachestat(fd, 0, 1).has_value(); }

}  // namespace headrace::os
