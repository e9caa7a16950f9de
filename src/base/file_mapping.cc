#include "base/file_mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "base/fault.h"

namespace headrace::base {
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

}  // namespace headrace::base
