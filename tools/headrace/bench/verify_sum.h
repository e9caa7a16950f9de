// Checksums of verify blocks, by fio's names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace headrace::bench {

enum class VerifySum : std::uint8_t { kNone, kCrc32c, kXxhash, kMd5, kSha256, kPattern };

// CRC-32C (Castagnoli) of `bytes`, following `crc` of what came before.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0) noexcept;

// Bytes that a verify block has at least: its header, and something that the header is about.
constexpr std::uint64_t least_verify_bytes(VerifySum sum) {
  return sum == VerifySum::kPattern ? 1 : sum == VerifySum::kMd5 || sum == VerifySum::kSha256 ? 128 : 64;
}

// XXH32 with seed 0.
std::uint32_t xxh32(std::span<const std::byte> bytes) noexcept;

// MD5 (RFC 1321) of two parts, one behind the other. A checksum against accidents, not against people.
using Md5Digest = std::array<std::byte, 16>;
Md5Digest md5(std::span<const std::byte> first, std::span<const std::byte> second = {}) noexcept;

}  // namespace headrace::bench
