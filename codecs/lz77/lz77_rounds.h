// Assigns pieces to rounds of decoding, and to scratch memory. Needs no CUDA header.
//
// The intermediate data of pieces (literals, sequences) can be up to 2.75 times the decoded bytes, but is usually 0.6
// to 1.5 times. Scratch therefore holds only a part of it, and pieces are decoded in consecutive rounds that reuse the
// same memory. A piece's place is the running sum of the needs of the pieces before it, in units of 16 bytes. Round r
// consists of the pieces whose place begins in [r, r + 1) * per_round, which makes rounds equally large. The limits
// bound the number of rounds; rounds without pieces end at once.
//
// A round should contain a share of each stream, because only one or a few thread blocks write a stream's output. With
// two rounds, for example, the sum runs over the first halves of all streams and then over the second halves. Only if
// there are so many streams that each round has enough of them anyway, the sum runs over whole streams, one after the
// other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::codec::gpu::lz77 {

inline constexpr std::uint32_t kUnitBytes = 16;
// Maximum number of streams that are divided into shares.
inline constexpr std::uint32_t kMaxSharing = 4096;

// Totals of a batch, written by `scan_rounds`.
struct RoundTotals {
  std::uint32_t per_round;  // units
  std::uint32_t shares;     // per stream; 1: whole streams
};

struct Rounds {
  std::uint32_t count = 1, per_round = 0;  // upper bounds: rounds, and units of one round
  // The following are in scratch.
  RoundTotals* totals = nullptr;
  std::uint32_t* parts = nullptr;  // for each stream, count + 1 entries: its first piece in the round or in a later one
  std::uint64_t* shares = nullptr;  // for each share and stream: position of its pieces in the sum, minus needed_before
};

// Sizes of rounds, derived from a batch's limits.
struct RoundSizes {
  std::uint64_t units = 0;  // total size of the places
  std::uint32_t count = 1, per_round = 0;

  // Memory for places: the decoded size plus this.
  static constexpr std::uint64_t kMoreBytes = 40 << 20;

  // `most_bytes`: limits the size, for tests.
  RoundSizes(std::uint64_t dst_bytes, std::uint64_t pieces, std::uint32_t max_piece_units,
             std::uint64_t most_bytes = ~std::uint64_t{0}) {
    // A literal takes one byte per decoded byte; a match, of three bytes or more, takes a slot and its part of a
    // checkpoint.
    const std::uint64_t all = dst_bytes / 64 * 11 + 11 + 4 * pieces;
    units = dst_bytes + kMoreBytes;
    units = (units < most_bytes ? units : most_bytes) / kUnitBytes;
    if (units < 2 * max_piece_units) units = 2 * max_piece_units;
    if (units >= all) {
      units = all;
      per_round = static_cast<std::uint32_t>(all < kMax ? all : kMax);
    } else {
      per_round = static_cast<std::uint32_t>(units - max_piece_units < kMax ? units - max_piece_units : kMax);
      count = static_cast<std::uint32_t>(all / per_round + 1);
    }
  }
  std::uint64_t parts_bytes(std::uint64_t streams) const { return streams * (count + 1) * sizeof(std::uint32_t); }
  std::uint64_t shares_bytes(std::uint64_t streams) const {
    return count == 1 ? 0 : (streams < kMaxSharing ? streams : kMaxSharing) * count * sizeof(std::uint64_t);
  }
  Rounds rounds(std::byte* totals, std::byte* parts, std::byte* shares) const {
    return {count, per_round, reinterpret_cast<RoundTotals*>(totals), reinterpret_cast<std::uint32_t*>(parts),
            reinterpret_cast<std::uint64_t*>(shares)};
  }

 private:
  static constexpr std::uint64_t kMax = 0xF0000000;  // 60 GiB: unit numbers have 32 bits
};

}  // namespace headrace::codec::gpu::lz77
