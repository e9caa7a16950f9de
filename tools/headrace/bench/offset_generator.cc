#include "offset_generator.h"

#include <bit>

namespace headrace::bench {

OffsetGenerator::OffsetGenerator(std::uint64_t blocks, bool random, bool repeat, std::uint64_t seed)
    : blocks_(blocks), seed_(seed), random_(random), repeat_(repeat) {
  const auto bits = static_cast<unsigned>(std::bit_width(blocks - 1));
  high_bits_ = bits / 2;
  low_bits_ = bits - high_bits_;
}

std::uint64_t OffsetGenerator::block(std::uint64_t pass, std::uint64_t position) const noexcept {
  if (!random_ || blocks_ == 1) return position;
  const std::uint64_t key = mix64(seed_ ^ mix64(pass));
  if (repeat_) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(mix64(key + position)) * blocks_ >> 64);
  }
  // A Feistel network permutes a power of two. Values that are not block numbers are permuted again (cycle walking):
  // less than once on average, and it terminates because a permutation's cycle returns to its start.
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits_) - 1, high_mask = (std::uint64_t{1} << high_bits_) - 1;
  std::uint64_t value = position;
  do {
    std::uint64_t low = value & low_mask, high = value >> low_bits_;
    for (unsigned round = 0; round < 6; round += 2) {
      high ^= mix64(key + (low << 3) + round) & high_mask;
      low ^= mix64(key + (high << 3) + round + 1) & low_mask;
    }
    value = high << low_bits_ | low;
  } while (value >= blocks_);
  return value;
}

}  // namespace headrace::bench
