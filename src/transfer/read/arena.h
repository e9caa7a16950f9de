// Arena: memory that is allocated piece by piece and freed as a whole.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace headrace::transfer {

class Arena {
 public:
  // Unaligned. Throws std::bad_alloc.
  std::byte* take(std::size_t bytes) {
    if (bytes > left_) {
      const std::size_t block = std::max(bytes, std::min(kLargestBlock, 2 * last_block_));
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
      at_ = blocks_.back().get();
      left_ = last_block_ = block;
    }
    std::byte* const out = at_;
    at_ += bytes;
    left_ -= bytes;
    return out;
  }

 private:
  static constexpr std::size_t kLargestBlock = std::size_t{4} << 20;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* at_ = nullptr;
  std::size_t left_ = 0, last_block_ = 4096;
};

}  // namespace headrace::transfer
