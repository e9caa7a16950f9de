// SlabMap: which parts of a staging slab are allocated.
//
// First-fit over a sorted list of free extents. The list's capacity covers the worst case, so nothing allocates after
// construction.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace::transfer {

class SlabMap {
 public:
  static constexpr std::uint64_t kUnit = 4096;  // extents begin and end at multiples of it

  explicit SlabMap(std::uint64_t bytes) {
    free_.reserve(static_cast<std::size_t>(bytes / kUnit / 2 + 2));
    if (bytes != 0) free_.push_back({0, bytes});
  }
  // REQUIRES: `bytes` is a multiple of kUnit.
  bool allocate(std::uint64_t bytes, std::uint64_t& at) noexcept {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->bytes < bytes) continue;
      at = it->at;
      it->at += bytes;
      it->bytes -= bytes;
      if (it->bytes == 0) free_.erase(it);
      return true;
    }
    return false;
  }
  void release(std::uint64_t at, std::uint64_t bytes) noexcept {
    auto next = std::lower_bound(free_.begin(), free_.end(), at,
                                 [](const Extent& extent, std::uint64_t position) { return extent.at < position; });
    const bool joins_next = next != free_.end() && at + bytes == next->at;
    if (next != free_.begin()) {
      if (auto before = std::prev(next); before->at + before->bytes == at) {
        before->bytes += bytes + (joins_next ? next->bytes : 0);
        if (joins_next) free_.erase(next);
        return;
      }
    }
    if (joins_next) {
      next->at = at;
      next->bytes += bytes;
    } else {
      free_.insert(next, {at, bytes});
    }
  }

 private:
  struct Extent {
    std::uint64_t at, bytes;
  };
  std::vector<Extent> free_;  // by position
};

}  // namespace headrace::transfer
