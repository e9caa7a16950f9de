// OffsetGenerator: the order in which a pass visits the blocks of a region.
//
// A pass over n blocks has n positions. In sequential order, position i is block i. In random order, the positions are
// a permutation, another one in each pass: it visits each block exactly once without a table of visited blocks. With
// `repeat` they are independent draws. The order depends only on seed, pass and position, so a pass can be repeated.
#pragma once

#include <cstdint>

namespace headrace::bench {

// Hashes x; also used to derive seeds.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class OffsetGenerator {
 public:
  // REQUIRES: blocks > 0.
  OffsetGenerator(std::uint64_t blocks, bool random, bool repeat, std::uint64_t seed);

  // REQUIRES: position < blocks.
  std::uint64_t block(std::uint64_t pass, std::uint64_t position) const noexcept;
  std::uint64_t blocks() const noexcept { return blocks_; }

 private:
  std::uint64_t blocks_, seed_;
  bool random_, repeat_;
  unsigned low_bits_ = 0, high_bits_ = 0;  // of the smallest power of two that is not less than the number of blocks
};

}  // namespace headrace::bench
