#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace headrace::base {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// kTables[k][b]: the register after byte b followed by k zero bytes, starting from zero.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xFF];
    }
  }
  return tables;
}
constexpr Tables kTables = make_tables();

std::uint32_t update_portable(std::uint32_t crc, const std::byte* data, std::size_t bytes) noexcept {
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word = 0;
    for (int i = 7; i >= 0; --i) word = word << 8 | std::to_integer<std::uint64_t>(data[i]);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; bytes > 0; ++data, --bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*data)) & 0xFF];
  }
  return crc;
}

#if defined(__x86_64__)

// The CRC instruction has a latency of three cycles and a throughput of one, so three stripes run in parallel. Joining
// them means advancing a register over a stripe of zeros, a linear operation done with tables.
constexpr std::size_t kStripeBytes = 4096;
constexpr std::size_t kShortStripeBytes = 256;

using Advance = std::array<std::array<std::uint32_t, 256>, 4>;

// REQUIRES: zero_bytes is a power of two.
constexpr Advance make_advance(std::size_t zero_bytes) {
  // basis[i]: bit i of a register, advanced over one byte; doubled until zero_bytes is reached.
  std::array<std::uint32_t, 32> basis{};
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint32_t crc = std::uint32_t{1} << i;
    basis[i] = (crc >> 8) ^ kTables[0][crc & 0xFF];
  }
  for (std::size_t n = 1; n < zero_bytes; n *= 2) {
    std::array<std::uint32_t, 32> twice{};
    for (std::size_t i = 0; i < 32; ++i) {
      for (std::size_t bit = 0; bit < 32; ++bit) {
        if ((basis[i] >> bit & 1) != 0) twice[i] ^= basis[bit];
      }
    }
    basis = twice;
  }
  Advance table{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::size_t value = 0; value < 256; ++value) {
      std::uint32_t crc = 0;
      for (std::size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) crc ^= basis[8 * byte + bit];
      }
      table[byte][value] = crc;
    }
  }
  return table;
}
constexpr Advance kAdvance = make_advance(kStripeBytes);
constexpr Advance kAdvanceShort = make_advance(kShortStripeBytes);

std::uint32_t advance(const Advance& table, std::uint32_t crc) {
  return table[0][crc & 0xFF] ^ table[1][crc >> 8 & 0xFF] ^ table[2][crc >> 16 & 0xFF] ^ table[3][crc >> 24];
}

std::uint64_t load64(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

template <std::size_t kStripe>
[[gnu::target("sse4.2")]] std::uint32_t update_striped(std::uint32_t crc, const Advance& table, const std::byte*& data,
                                                       std::size_t& bytes) noexcept {
  for (; bytes >= 3 * kStripe; data += 3 * kStripe, bytes -= 3 * kStripe) {
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < kStripe; i += 8) {
      a = _mm_crc32_u64(a, load64(data + i));
      b = _mm_crc32_u64(b, load64(data + kStripe + i));
      c = _mm_crc32_u64(c, load64(data + 2 * kStripe + i));
    }
    crc = advance(table, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    crc = advance(table, crc) ^ static_cast<std::uint32_t>(c);
  }
  return crc;
}

[[gnu::target("sse4.2")]] std::uint32_t update_sse42(std::uint32_t crc, const std::byte* data,
                                                     std::size_t bytes) noexcept {
  crc = update_striped<kStripeBytes>(crc, kAdvance, data, bytes);
  crc = update_striped<kShortStripeBytes>(crc, kAdvanceShort, data, bytes);
  std::uint64_t wide = crc;
  for (; bytes >= 8; data += 8, bytes -= 8) wide = _mm_crc32_u64(wide, load64(data));
  crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; ++data, --bytes) crc = _mm_crc32_u8(crc, std::to_integer<unsigned char>(*data));
  return crc;
}

#endif  // __x86_64__

}  // namespace

std::uint32_t crc32c_portable(const std::byte* data, std::size_t bytes) noexcept {
  return ~update_portable(0xFFFFFFFF, data, bytes);
}

std::uint32_t crc32c(const std::byte* data, std::size_t bytes) noexcept {
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2");
  if (instruction) return ~update_sse42(0xFFFFFFFF, data, bytes);
#endif
  return crc32c_portable(data, bytes);
}

}  // namespace headrace::base
