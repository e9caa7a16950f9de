#include "os/file_mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "base/fault.h"

namespace headrace::os {
std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* reserve_addresses(std::size_t bytes) noexcept {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  std::int64_t result = HEADRACE_FAULT("base.reserve_addresses", 0);
  if (result < 0) return nullptr;
  const std::size_t slack = bytes >= kHuge ? kHuge : 0;
  void* base = ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(base);
  if (slack == 0) return begin;
  const std::size_t ahead = (kHuge - reinterpret_cast<std::uintptr_t>(begin) % kHuge) % kHuge;
  if (ahead > 0) ::munmap(begin, ahead);
  if (ahead < slack) ::munmap(begin + ahead + bytes, slack - ahead);
  return begin + ahead;
}

int map_file_at(std::byte* address, std::size_t bytes, int fd, std::uint64_t offset) noexcept {
  std::int64_t result = HEADRACE_FAULT("base.map_file", 0);
  if (result < 0) return static_cast<int>(-result);
  // Excluded from fork: a child's copy would be useless but would count as a mapping.
  void* base = ::mmap(address, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset));
  return base == MAP_FAILED ? errno : 0;
}

void populate(std::byte* address, std::size_t bytes) noexcept {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ
  (void)::madvise(address, bytes, kPopulateRead);
}

void unmap(std::byte* address, std::size_t bytes) noexcept {
  if (address != nullptr) (void)::munmap(address, bytes);
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

}  // namespace headrace::os
