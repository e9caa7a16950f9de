// Alignment that O_DIRECT requires of a descriptor, and widening of ranges to it.
#pragma once

#include <cstdint>

#include "base/checked.h"

namespace headrace::os {

struct DirectAlignment {
  std::uint32_t memory_bytes = 4096;
  std::uint32_t offset_bytes = 4096;  // also for lengths
  bool known = false;                 // reported by the kernel; otherwise 4096, which every file system here accepts
};

// Asks the kernel (STATX_DIOALIGN, Linux 6.1). An answer of 0 (no direct I/O at all) counts as unknown.
DirectAlignment direct_alignment(int fd) noexcept;

// [offset, offset + length) widened so that both ends are multiples of `unit`.
struct WidenedRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  std::uint64_t lead_bytes = 0;  // offset of the wanted bytes within it
};

// REQUIRES: unit is a power of two; offset + length + unit does not wrap.
constexpr WidenedRange widen(std::uint64_t offset, std::uint64_t length, std::uint64_t unit) noexcept {
  const std::uint64_t start = base::align_down(offset, unit);
  const std::uint64_t end = base::align_up(offset + length, unit);
  return {start, end - start, offset - start};
}

}  // namespace headrace::os
