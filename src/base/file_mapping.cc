#include "base/file_mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/fault.h"
#include "base/file_read.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace headrace::base {
namespace {

// One byte here and there. A miss makes the kernel read ahead, so the second one ends the search.
std::optional<std::uint64_t> sampled_residency(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
  constexpr std::uint64_t kSamples = 16;
  std::uint64_t asked = 0, there = 0;
  for (; asked < kSamples && asked - there < 2; ++asked) {
    std::byte byte;
    iovec vec{&byte, 1};
    const auto at = static_cast<off_t>(offset + length / kSamples * asked);
    std::int64_t got = ::preadv2(fd, &vec, 1, at, RWF_NOWAIT);
    if (got < 0) got = -errno;
    got = HEADRACE_FAULT("base.probe", got);
    if (got < 0 && got != -EAGAIN) return std::nullopt;
    there += got == 1 ? 1 : 0;
  }
  return length / asked * there;
}

}  // namespace

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* reserve_addresses(std::size_t bytes) noexcept {
  std::int64_t result = HEADRACE_FAULT("base.reserve_addresses", 0);
  if (result < 0) return nullptr;
  void* base = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

int map_file_at(std::byte* address, std::size_t bytes, int fd, std::uint64_t offset) noexcept {
  std::int64_t result = HEADRACE_FAULT("base.map_file", 0);
  if (result < 0) return static_cast<int>(-result);
  // Never inherited by fork: a child's copy would keep nothing but would count as a mapping.
  void* base = ::mmap(address, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset));
  return base == MAP_FAILED ? errno : 0;
}

void unmap(std::byte* address, std::size_t bytes) noexcept {
  if (address != nullptr) (void)::munmap(address, bytes);
}

std::optional<std::uint64_t> resident_bytes(int fd, std::uint64_t offset, std::uint64_t length,
                                            const std::byte* mapping) noexcept {
  if (length == 0) return 0;
  const std::uint64_t page = page_bytes();
  if (const auto pages = cached_pages(fd, offset, length); pages.has_value()) return std::min(*pages * page, length);
  if (const auto estimate = sampled_residency(fd, offset, length); estimate.has_value()) return estimate;
  if (mapping == nullptr) return std::nullopt;
  unsigned char present[4096];
  std::uint64_t resident = 0;
  for (std::uint64_t at = 0; at < length; at += page * sizeof present) {
    const std::uint64_t part = std::min<std::uint64_t>(length - at, page * sizeof present);
    if (::mincore(const_cast<std::byte*>(mapping) + at, part, present) != 0) return std::nullopt;
    for (std::uint64_t i = 0; i < (part + page - 1) / page; ++i) resident += (present[i] & 1u) != 0 ? page : 0;
  }
  return std::min(resident, length);
}

std::size_t mapping_limit() noexcept {
  static const std::size_t limit = [] {
    unsigned long value = 65530;
    if (FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re"); file != nullptr) {
      if (std::fscanf(file, "%lu", &value) != 1) value = 65530;
      std::fclose(file);
    }
    return static_cast<std::size_t>(value);
  }();
  return limit;
}

}  // namespace headrace::base
