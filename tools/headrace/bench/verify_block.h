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
#include <utility>
#include <vector>

#include "block_pattern.h"
#include "verify_sum.h"

namespace headrace::bench {

constexpr std::size_t kVerifyHeaderBytes = 40;

// What the blocks of a job have in common.
struct VerifyFormat {
  VerifyFormat(std::uint64_t of_seed) : seed(of_seed) {}  // NOLINT(google-explicit-constructor): a seed says it all
  VerifyFormat(std::uint64_t of_seed, VerifySum of_sum, BlockPattern of_pattern)
      : seed(of_seed), sum(of_sum), pattern(std::move(of_pattern)) {}
  std::uint64_t seed;
  VerifySum sum = VerifySum::kCrc32c;
  BlockPattern pattern;  // behind the header; empty: bytes that follow from seed, offset and sequence
};

// REQUIRES: at least least_verify_bytes(), fewer than 2^32. With kPattern the block is the pattern alone, without a
// header; that such a block is of another pass, or of another place with the same pattern, nobody can see.
void fill_verify_block(std::span<std::byte> block, std::uint64_t offset, const VerifyFormat& format,
                       std::uint64_t sequence);

// The sequence in the header of an intact or damaged block of this format and offset; nothing if it is no such block.
std::optional<std::uint64_t> verify_block_sequence(std::span<const std::byte> header, std::uint64_t offset,
                                                   const VerifyFormat& format);

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
  explicit VerifyChecker(VerifyFormat format) : format_(std::move(format)) {}

  // `sequence` 0: not known. All blocks are then expected to be of the newest pass met; where a newer one is met after
  // older ones, the first of those is the fault.
  std::optional<VerifyFault> check(std::span<const std::byte> block, std::uint64_t offset, std::uint64_t sequence);

 private:
  std::optional<VerifyFault> compare_pattern(std::span<const std::byte> block, std::uint64_t offset);
  // The block as it should be for the likelier of two sequences, compared with what it is.
  VerifyFault compare(std::span<const std::byte> block, std::uint64_t offset, std::uint64_t expected,
                      std::uint64_t found);

  VerifyFormat format_;
  std::vector<std::byte> model_;     // a block as it should be
  std::uint64_t newest_ = 0;         // 0: no block met yet
  std::uint64_t newest_offset_ = 0;  // of the first block of that pass
};

}  // namespace headrace::bench
