#include "verify_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace headrace::bench {
namespace {

// Of a polynomial whose bits are reversed: the lowest is that of the highest power.
template <class Word>
constexpr std::array<Word, 256> make_table(Word polynomial) {
  std::array<Word, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    auto crc = static_cast<Word>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = static_cast<Word>((crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0));
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table<std::uint32_t>(0x82F63B78u);
constexpr std::array<std::uint16_t, 256> kTable16 = make_table<std::uint16_t>(0xA001u);
constexpr std::array<std::uint32_t, 256> kTable32 = make_table<std::uint32_t>(0xEDB88320u);
constexpr std::array<std::uint64_t, 256> kTable64 = make_table<std::uint64_t>(0xC96C5795D7870F42u);

template <class Word>
Word crc_by(const std::array<Word, 256>& table, Word crc, const std::byte* data, std::size_t bytes) noexcept {
  for (; bytes > 0; ++data, --bytes) {
    crc = static_cast<Word>((crc >> 8) ^ table[(crc ^ std::to_integer<unsigned>(*data)) & 0xFF]);
  }
  return crc;
}

// The seven bits of CRC-7 stand in the upper part of a byte, the highest first.
constexpr std::array<std::uint8_t, 256> make_table7() {
  std::array<std::uint8_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x80) != 0 ? 0x09u << 1 : 0);
    table[byte] = static_cast<std::uint8_t>(crc);
  }
  return table;
}
constexpr std::array<std::uint8_t, 256> kTable7 = make_table7();

std::uint32_t crc_portable(std::uint32_t crc, const std::byte* data, std::size_t bytes) noexcept {
  return crc_by(kTable, crc, data, bytes);
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc_instruction(std::uint32_t crc, const std::byte* data,
                                                                std::size_t bytes) noexcept {
  std::uint64_t wide = crc;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  return crc_portable(static_cast<std::uint32_t>(wide), data, bytes);
}
#endif

template <class Word>
Word load(const std::byte* at) noexcept {
  Word word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;  // little-endian, as every platform of the library is
}

constexpr std::uint32_t kPrime[] = {0x9E3779B1u, 0x85EBCA77u, 0xC2B2AE3Du, 0x27D4EB2Fu, 0x165667B1u};

constexpr unsigned kMd5Turns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

// RFC 1321: the integer part of 2^32 times |sin(i + 1)|.
const std::array<std::uint32_t, 64>& md5_constants() noexcept {
  static const std::array<std::uint32_t, 64> kTableOfSines = [] {
    std::array<std::uint32_t, 64> table{};
    for (unsigned i = 0; i < 64; ++i)
      table[i] = static_cast<std::uint32_t>(std::floor(std::abs(std::sin(i + 1.0)) * 0x1p32));
    return table;
  }();
  return kTableOfSines;
}

void md5_block(std::uint32_t (&state)[4], const std::byte* block) noexcept {
  const auto& constants = md5_constants();
  std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  for (unsigned i = 0; i < 64; ++i) {
    std::uint32_t mixed = 0;
    unsigned word = 0;
    switch (i / 16) {
      case 0:
        mixed = (b & c) | (~b & d);
        word = i;
        break;
      case 1:
        mixed = (d & b) | (~d & c);
        word = 5 * i + 1;
        break;
      case 2:
        mixed = b ^ c ^ d;
        word = 3 * i + 5;
        break;
      default:
        mixed = c ^ (b | ~d);
        word = 7 * i;
    }
    const std::uint32_t sum = a + mixed + constants[i] + load<std::uint32_t>(block + std::size_t{word} % 16 * 4);
    a = d;
    d = c;
    c = b;
    b += std::rotl(sum, static_cast<int>(kMd5Turns[i / 16][i % 4]));
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("sse4.2") != 0;
  if (fast) return ~crc_instruction(~crc, bytes.data(), bytes.size());
#endif
  return ~crc_portable(~crc, bytes.data(), bytes.size());
}

std::uint8_t crc7(std::span<const std::byte> bytes, std::uint8_t crc) noexcept {
  auto shifted = static_cast<std::uint8_t>(crc << 1);
  for (const std::byte byte : bytes) shifted = kTable7[shifted ^ std::to_integer<std::uint8_t>(byte)];
  return shifted >> 1;
}

std::uint16_t crc16(std::span<const std::byte> bytes, std::uint16_t crc) noexcept {
  return crc_by(kTable16, crc, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
  return ~crc_by(kTable32, ~crc, bytes.data(), bytes.size());
}

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t crc) noexcept {
  return ~crc_by(kTable64, ~crc, bytes.data(), bytes.size());
}

std::uint32_t xxh32(std::span<const std::byte> bytes) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  const auto round = [](std::uint32_t lane, std::uint32_t word) {
    return std::rotl(lane + word * kPrime[1], 13) * kPrime[0];
  };
  std::uint32_t hash = kPrime[4];
  if (left >= 16) {
    std::uint32_t lanes[4] = {kPrime[0] + kPrime[1], kPrime[1], 0, 0u - kPrime[0]};
    for (; left >= 16; at += 16, left -= 16) {
      for (unsigned i = 0; i < 4; ++i) lanes[i] = round(lanes[i], load<std::uint32_t>(at + std::size_t{i} * 4));
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  }
  hash += static_cast<std::uint32_t>(bytes.size());
  for (; left >= 4; at += 4, left -= 4) hash = std::rotl(hash + load<std::uint32_t>(at) * kPrime[2], 17) * kPrime[3];
  for (; left > 0; ++at, --left)
    hash = std::rotl(hash + std::to_integer<std::uint32_t>(*at) * kPrime[4], 11) * kPrime[0];
  hash = (hash ^ (hash >> 15)) * kPrime[1];
  hash = (hash ^ (hash >> 13)) * kPrime[2];
  return hash ^ (hash >> 16);
}

Md5Digest md5(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  std::uint32_t state[4] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u};
  std::array<std::byte, 128> rest{};
  std::size_t held = 0;
  for (const std::span<const std::byte> part : {first, second}) {
    std::size_t at = 0;
    if (held > 0) {
      at = std::min(64 - held, part.size());
      if (at > 0) std::memcpy(rest.data() + held, part.data(), at);
      held += at;
      if (held < 64) continue;
      md5_block(state, rest.data());
    }
    for (; part.size() - at >= 64; at += 64) md5_block(state, part.data() + at);
    held = part.size() - at;
    if (held > 0) std::memcpy(rest.data(), part.data() + at, held);
  }
  std::memset(rest.data() + held, 0, rest.size() - held);
  rest[held] = std::byte{0x80};
  const std::size_t blocks = held < 56 ? 1 : 2;
  const std::uint64_t bits = (std::uint64_t{first.size()} + second.size()) * 8;
  std::memcpy(rest.data() + blocks * 64 - 8, &bits, 8);
  for (std::size_t i = 0; i < blocks; ++i) md5_block(state, rest.data() + i * 64);
  Md5Digest digest;
  std::memcpy(digest.data(), state, digest.size());
  return digest;
}

}  // namespace headrace::bench
