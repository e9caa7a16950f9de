#include "http/sha1.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace headrace::http {

std::string sha1_hex(std::string_view text) {
  std::string padded(text);
  padded += static_cast<char>(0x80);
  while (padded.size() % 64 != 56) padded += '\0';
  const std::uint64_t bits = std::uint64_t{8} * text.size();
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>((bits >> shift) & 0xff);
  std::array<std::uint32_t, 5> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  for (std::size_t block = 0; block < padded.size(); block += 64) {
    std::array<std::uint32_t, 80> word{};
    for (std::size_t i = 0; i < 64; ++i) {
      word[i / 4] = word[i / 4] << 8 | static_cast<unsigned char>(padded[block + i]);
    }
    for (std::size_t i = 16; i < word.size(); ++i) {
      word[i] = std::rotl(word[i - 3] ^ word[i - 8] ^ word[i - 14] ^ word[i - 16], 1);
    }
    auto [a, b, c, d, e] = state;
    for (std::size_t i = 0; i < word.size(); ++i) {
      const std::uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                                  : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                                  : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                           : (b ^ c ^ d) + 0xca62c1d6;
      const std::uint32_t next = std::rotl(a, 5) + mixed + e + word[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    const std::array<std::uint32_t, 5> add{a, b, c, d, e};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += add[i];
  }
  std::string out;
  for (const std::uint32_t part : state) {
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(part >> shift) & 15];
  }
  return out;
}

}  // namespace headrace::http
