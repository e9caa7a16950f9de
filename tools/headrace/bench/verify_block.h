// Self-describing blocks: magic, offset, seed, sequence (the pass that wrote them), length, checksum, pattern.
//
// An intact block with another offset or seed is misplaced; with an earlier sequence it is stale. In a damaged block
// the changed bytes can be located, since seed, offset and sequence determine every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "block_pattern.h"
#include "verify_sum.h"

namespace headrace::bench {

constexpr std::size_t kVerifyHeaderBytes = 40;

// Properties shared by all blocks of a job.
struct VerifyFormat {
  VerifyFormat(std::uint64_t of_seed)
      : seed(of_seed) {}  // NOLINT(google-explicit-constructor): a seed defines the format
  VerifyFormat(std::uint64_t of_seed, VerifySum of_sum, BlockPattern of_pattern)
      : seed(of_seed), sum(of_sum), pattern(std::move(of_pattern)) {}
  std::uint64_t seed;
  VerifySum sum = VerifySum::kCrc32c;
  BlockPattern pattern;  // after the header; empty: bytes derived from seed, offset and sequence
};

// REQUIRES: at least min_verify_bytes(), fewer than 2^32 bytes. With kPattern the block has no header, only the
// pattern; a block of another pass, or of another place with the same pattern, cannot be detected then.
void fill_verify_block(std::span<std::byte> block, std::uint64_t offset, const VerifyFormat& format,
                       std::uint64_t sequence);

// The sequence in the header of an intact or damaged block of this format and offset; nullopt if it is no such block.
std::optional<std::uint64_t> verify_block_sequence(std::span<const std::byte> header, std::uint64_t offset,
                                                   const VerifyFormat& format);

enum class FaultKind : std::uint8_t {
  kFlipped,    // the right block with changed bytes
  kMisplaced,  // intact, but with another offset or seed
  kStale,      // intact, but from an earlier pass
  kForeign,    // not written by a verify job
};
std::string_view fault_kind_name(FaultKind kind);  // "flipped byte", "misplaced block", "stale block", "foreign block"

struct VerifyFault {
  FaultKind kind = FaultKind::kForeign;
  std::uint64_t offset_bytes = 0;  // in the file: the first wrong byte for kFlipped, else the block
  std::string expected, found;
};

// Checks the blocks that one job reads, in any order.
class VerifyChecker {
 public:
  explicit VerifyChecker(VerifyFormat format) : format_(std::move(format)) {}

  // `sequence` 0: unknown. All blocks are then expected to have the newest sequence seen; if a newer one follows older
  // ones, the first of the older ones is reported.
  std::optional<VerifyFault> check(std::span<const std::byte> block, std::uint64_t offset, std::uint64_t sequence);

 private:
  std::optional<VerifyFault> compare_pattern(std::span<const std::byte> block, std::uint64_t offset);
  // Compares the block with its expected content for the more likely of two sequences.
  VerifyFault compare(std::span<const std::byte> block, std::uint64_t offset, std::uint64_t expected,
                      std::uint64_t found);

  VerifyFormat format_;
  std::vector<std::byte> model_;     // expected content of a block
  std::uint64_t newest_ = 0;         // 0: no block seen yet
  std::uint64_t newest_offset_ = 0;  // offset of the first block with that sequence
};

}  // namespace headrace::bench
