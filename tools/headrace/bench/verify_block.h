// Blocks that say where they belong: magic, offset, seed, sequence (which pass wrote them), length, checksum, pattern.
//
// A block that is intact but of another place is misplaced, of an earlier pass stale; of one that is not intact, the
// bytes that changed are found, since seed, offset and sequence give every byte of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headrace::bench {

// CRC-32C (Castagnoli) of `bytes`, following `crc` of what came before.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0) noexcept;

constexpr std::size_t kVerifyHeaderBytes = 40;

// REQUIRES: at least 64 bytes, fewer than 2^32.
void fill_verify_block(std::span<std::byte> block, std::uint64_t offset, std::uint64_t seed, std::uint64_t sequence);

// The sequence in the header of an intact or damaged block of this seed and offset; nothing if it is no such block.
std::optional<std::uint64_t> verify_block_sequence(std::span<const std::byte> header, std::uint64_t offset,
                                                   std::uint64_t seed);

enum class FaultKind : std::uint8_t {
  kFlipped,    // a block of this place with bytes changed
  kMisplaced,  // intact, but of another offset or seed
  kStale,      // intact, but of an earlier pass
  kForeign,    // not written by a verify job
};
std::string_view fault_kind_name(FaultKind kind);  // "flipped byte", "misplaced block", "stale block", "foreign block"

struct VerifyFault {
  FaultKind kind = FaultKind::kForeign;
  std::uint64_t offset_bytes = 0;  // in the file: of the first wrong byte for kFlipped, else of the block
  std::string expected, found;
};

// Checks the blocks of one job's reads, in any order.
class VerifyChecker {
 public:
  explicit VerifyChecker(std::uint64_t seed) : seed_(seed) {}

  // `sequence` 0: not known. All blocks are then expected to be of the newest pass met; where a newer one is met after
  // older ones, the first of those is the fault.
  std::optional<VerifyFault> check(std::span<const std::byte> block, std::uint64_t offset, std::uint64_t sequence);

 private:
  std::uint64_t seed_;
  std::uint64_t newest_ = 0;         // 0: no block met yet
  std::uint64_t newest_offset_ = 0;  // of the first block of that pass
};

}  // namespace headrace::bench
