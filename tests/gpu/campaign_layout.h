// Positions of a campaign's chunks. In each window the first chunk is at the left end and the last at the right end, so
// that an access one byte too far is an illegal address; those in between have any alignment. Gaps of at least 33 bytes
// between outputs hold canaries. Positions are computed from the item's number, so host and device need no lists.
#pragma once

#include "support/mutation.h"

namespace headrace::test {

struct WindowRange {
  unsigned char* base = nullptr;  // address of the first window
  std::uint64_t stride = 0;       // distance between windows
  std::uint64_t window_bytes = 0;
  std::uint64_t slot = 0;    // distance between items
  std::uint32_t per = 1;     // items per window
  std::uint32_t items = 0;   // in the batch
  std::uint32_t jitter = 1;  // maximum offset from the slot's start, exclusive

  HEADRACE_BOTH std::uint32_t windows() const { return (items + per - 1) / per; }
  HEADRACE_BOTH std::uint32_t in_window(std::uint32_t window) const {
    const std::uint32_t before = window * per;
    return items - before < per ? items - before : per;
  }
  // Offset in its window of the window's item `k`, which has `bytes` bytes.
  HEADRACE_BOTH std::uint64_t offset(std::uint32_t window, std::uint32_t k, std::uint64_t bytes) const {
    const std::uint32_t count = in_window(window);
    if (count == 1 ? window % 2 == 1 : k + 1 == count) return window_bytes - bytes;
    return k == 0 ? 0 : k * slot + mix(k) % jitter;
  }
  HEADRACE_BOTH unsigned char* at(std::uint32_t item, std::uint64_t bytes) const {
    return base + item / per * stride + offset(item / per, item % per, bytes);
  }
  // Whether the byte at offset `at` of a window belongs to an item, if each has `bytes` bytes.
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
