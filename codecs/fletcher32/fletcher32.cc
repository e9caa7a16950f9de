#include "fletcher32.h"

#include <algorithm>

namespace headrace::codec {
namespace {

// Reduces modulo 65535 by folding. A nonzero multiple of 65535 becomes 65535, not 0.
std::uint32_t fold(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

std::uint32_t fletcher32(const std::byte* data, std::size_t bytes) noexcept {
  constexpr std::size_t kBlockWords = 1 << 16;  // keeps sum2 below 2^49
  std::uint64_t sum1 = 0, sum2 = 0;
  for (std::size_t words = bytes / 2; words > 0;) {
    const std::size_t count = std::min(words, kBlockWords);
    for (std::size_t i = 0; i < count; ++i, data += 2) {
      sum1 += std::to_integer<std::uint64_t>(data[0]) << 8 | std::to_integer<std::uint64_t>(data[1]);
      sum2 += sum1;
    }
    words -= count;
    sum1 = fold(sum1);
    sum2 = fold(sum2);
  }
  if (bytes % 2 != 0) {
    sum1 += std::to_integer<std::uint64_t>(*data) << 8;
    sum2 += sum1;
  }
  return fold(sum2) << 16 | fold(sum1);
}

}  // namespace headrace::codec
