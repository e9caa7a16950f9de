// Where a campaign's chunks lie: the first of each window at its left end, the last at its right end, so that one byte
// too far is an illegal address; between them at any alignment. Outputs have 33 bytes or more between them, which hold
// canaries. Positions follow from the item's number: host and device need no lists.
#pragma once

#include "support/mutation.h"

namespace headrace::test {

struct WindowRange {
  unsigned char* base = nullptr;  // of the first window
  std::uint64_t stride = 0;       // from window to window
  std::uint64_t window_bytes = 0;
  std::uint64_t slot = 0;    // from item to item
  std::uint32_t per = 1;     // items in a window
  std::uint32_t items = 0;   // of the batch
  std::uint32_t jitter = 1;  // starts differ by less than this from their slot's

  HEADRACE_BOTH std::uint32_t windows() const { return (items + per - 1) / per; }
  HEADRACE_BOTH std::uint32_t in_window(std::uint32_t window) const {
    const std::uint32_t before = window * per;
    return items - before < per ? items - before : per;
  }
  // Offset in its window of item `k` of it, which has `bytes` bytes.
  HEADRACE_BOTH std::uint64_t offset(std::uint32_t window, std::uint32_t k, std::uint64_t bytes) const {
    const std::uint32_t count = in_window(window);
    if (count == 1 ? window % 2 == 1 : k + 1 == count) return window_bytes - bytes;
    return k == 0 ? 0 : k * slot + mix(k) % jitter;
  }
  HEADRACE_BOTH unsigned char* at(std::uint32_t item, std::uint64_t bytes) const {
    return base + item / per * stride + offset(item / per, item % per, bytes);
  }
  // Whether the byte at `at` of a window belongs to one of its items, which have `bytes` bytes each.
  HEADRACE_BOTH bool taken(std::uint32_t window, std::uint64_t at, std::uint64_t bytes) const {
    const std::uint32_t count = in_window(window);
    if (at - offset(window, count - 1, bytes) < bytes) return true;
    const std::uint64_t k = at / slot;
    return k < count && at - offset(window, static_cast<std::uint32_t>(k), bytes) < bytes;
  }
};

// The canary of an address.
HEADRACE_BOTH inline unsigned char canary(std::uint64_t address) {
  return static_cast<unsigned char>(mix(address >> 3) >> (address % 8 * 8));
}

}  // namespace headrace::test
