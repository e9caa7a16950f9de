// OffsetGenerator: which block of a region is visited when.
//
// A pass over n blocks is a sequence of n positions. In sequence, position i is block i. At random, the positions are a
// permutation (each block exactly once a pass, no table of visited blocks), another one each pass; with `repeat` they
// are independent draws. A function of seed, pass and position alone, so that a pass can be gone through again.
#pragma once

#include <cstdint>

namespace headrace::bench {

// A well-mixed function of x, used for seeds as well.
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
  unsigned low_bits_ = 0, high_bits_ = 0;  // of the smallest power of two that holds every block
};

}  // namespace headrace::bench
