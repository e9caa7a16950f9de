// Checksums of verify blocks, under fio's names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace headrace::bench {

enum class VerifySum : std::uint8_t {
  kNone,
  kCrc32c,
  kCrc7,
  kCrc16,
  kCrc32,
  kCrc64,
  kXxhash,
  kMd5,
  kSha256,
  kMeta,  // only the header: offset, seed, pass
  kPattern,
};

// CRC-32C (Castagnoli) of `bytes`, continuing from `crc`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0) noexcept;

// CRC-7/MMC, CRC-16/ARC, CRC-32/ISO-HDLC and CRC-64/XZ by catalogue name; each continues from `crc`.
std::uint8_t crc7(std::span<const std::byte> bytes, std::uint8_t crc = 0) noexcept;
std::uint16_t crc16(std::span<const std::byte> bytes, std::uint16_t crc = 0) noexcept;
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0) noexcept;
std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t crc = 0) noexcept;

// Size of the digest after a block's header, for checksums that do not fit the header.
constexpr std::size_t digest_bytes(VerifySum sum) {
  switch (sum) {
    case VerifySum::kCrc64:
      return 8;
    case VerifySum::kMd5:
      return 16;
    case VerifySum::kSha256:
      return 32;
    default:
      return 0;
  }
}

// Minimum size of a verify block: its header and some content.
constexpr std::uint64_t min_verify_bytes(VerifySum sum) {
  return sum == VerifySum::kPattern ? 1 : digest_bytes(sum) > 8 ? 128 : 64;
}

// XXH32 with seed 0.
std::uint32_t xxh32(std::span<const std::byte> bytes) noexcept;

// MD5 (RFC 1321) of two parts concatenated. It detects accidental damage, not manipulation.
using Md5Digest = std::array<std::byte, 16>;
Md5Digest md5(std::span<const std::byte> first, std::span<const std::byte> second = {}) noexcept;

}  // namespace headrace::bench
