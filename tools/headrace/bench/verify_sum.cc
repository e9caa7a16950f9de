#include "verify_sum.h"

#define OPENSSL_SUPPRESS_DEPRECATED  // as in sha256.h
#define XXH_INLINE_ALL
#include <libdeflate.h>
#include <lzma.h>
#include <openssl/md5.h>
#include <xxhash.h>

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace headrace::bench {
namespace {

// Table for a reflected polynomial: the lowest bit is the highest power.
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

template <class Word>
Word crc_by(const std::array<Word, 256>& table, Word crc, const std::byte* data, std::size_t bytes) noexcept {
  for (; bytes > 0; ++data, --bytes) {
    crc = static_cast<Word>((crc >> 8) ^ table[(crc ^ std::to_integer<unsigned>(*data)) & 0xFF]);
  }
  return crc;
}

// The seven bits of CRC-7 occupy the upper part of a byte, most significant first.
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
  return bytes.empty() ? crc : libdeflate_crc32(crc, bytes.data(), bytes.size());
}

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t crc) noexcept {
  return lzma_crc64(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), crc);
}

std::uint32_t xxh32(std::span<const std::byte> bytes) noexcept { return XXH32(bytes.data(), bytes.size(), 0); }

Md5Digest md5(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  MD5_CTX state;
  MD5_Init(&state);
  MD5_Update(&state, first.data(), first.size());
  MD5_Update(&state, second.data(), second.size());
  Md5Digest digest;
  MD5_Final(reinterpret_cast<unsigned char*>(digest.data()), &state);
  return digest;
}

}  // namespace headrace::bench
