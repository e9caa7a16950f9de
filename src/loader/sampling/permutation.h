// A pseudo-random permutation of [0, n) in constant memory. It maps single elements in both directions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "loader/sampling/counter_random.h"

namespace headrace::loader {

// Round keys of a permutation.
using RoundKeys = std::array<std::uint64_t, 8>;

inline RoundKeys round_keys(std::uint64_t key) noexcept {
  RoundKeys keys{};
  for (std::size_t i = 0; i < keys.size(); i += 2) {
    const auto random = random_at(key, i, 0);
    keys[i] = random[0];
    keys[i + 1] = random[1];
  }
  return keys;
}

// Round keys of one of many permutations; cheaper than round_keys().
inline RoundKeys keys_of(const RoundKeys& keys, std::uint64_t which) noexcept {
  RoundKeys out{};
  const std::uint64_t tweak = mix(which + 0x9E3779B97F4A7C15);
  for (std::size_t i = 0; i < keys.size(); ++i) out[i] = mix(keys[i] + tweak);
  return out;
}

// A Feistel network over the smallest power of two that is at least n and 64. Results outside [0, n) are mapped again
// until they are inside (cycle walking). Such a network is always an even permutation, which shows for small n. So,
// depending on the key, 0 and 1 are swapped, which makes both parities equally likely.
class Permutation {
 public:
  // REQUIRES: 1 <= n <= 2^63.
  Permutation(std::uint64_t n, const RoundKeys& keys) noexcept : keys_(keys), n_(n) {
    const int bits = std::max(6, static_cast<int>(std::bit_width(n - 1)));
    left_bits_ = bits / 2;
    right_bits_ = bits - left_bits_;
    swaps_first_ = n > 1 ? keys[0] >> 63 : 0;
  }

  std::uint64_t operator()(std::uint64_t index) const noexcept {
    if (index < 2) index ^= swaps_first_;
    do {
      index = forward(index);
    } while (index >= n_);
    return index;
  }

  std::uint64_t inverse(std::uint64_t value) const noexcept {
    do {
      value = backward(value);
    } while (value >= n_);
    return value < 2 ? value ^ swaps_first_ : value;
  }

 private:
  static std::uint64_t mask(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

  // Each round swaps the halves and, with an odd number of bits, their widths. 8 rounds restore them.
  std::uint64_t forward(std::uint64_t index) const noexcept {
    int left_bits = left_bits_, right_bits = right_bits_;
    std::uint64_t left = index >> right_bits, right = index & mask(right_bits);
    for (const std::uint64_t key : keys_) {
      left = std::exchange(right, left ^ (mix(right ^ key) & mask(left_bits)));
      std::swap(left_bits, right_bits);
    }
    return left << right_bits | right;
  }

  std::uint64_t backward(std::uint64_t value) const noexcept {
    int left_bits = left_bits_, right_bits = right_bits_;
    std::uint64_t left = value >> right_bits, right = value & mask(right_bits);
    for (std::size_t round = keys_.size(); round-- > 0;) {
      std::swap(left_bits, right_bits);
      right = std::exchange(left, right ^ (mix(left ^ keys_[round]) & mask(left_bits)));
    }
    return left << right_bits | right;
  }

  RoundKeys keys_;
  std::uint64_t n_;
  std::uint64_t swaps_first_;  // 1: 0 and 1 are swapped
  int left_bits_, right_bits_;
};

}  // namespace headrace::loader
