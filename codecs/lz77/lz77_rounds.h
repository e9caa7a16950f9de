// Pieces are decoded in rounds: which, and where their parts lie meanwhile. No CUDA header is needed here.
//
// What pieces need while they are decoded (literals, sequences) is up to 2.75 times the decoded bytes, but most often
// 0.6 to 1.5 times; so scratch holds a share of it, and pieces are decoded in rounds, one behind the other in the same
// memory. A piece's place is the running sum of what the pieces before need, in units of 16 bytes; round r is the
// pieces whose place begins in [r, r + 1) * per_round, which makes rounds equally large. How many rounds there can be
// follows from the limits; those without pieces end at once.
//
// A round should have a share of each stream, as a stream's output is written by one thread block, or a few. So where
// there are two rounds, the sum goes over the first halves of all streams and then over the second ones, and so on.
// Only where streams are so many that each round has enough of them anyway, it goes over one whole stream after the
// other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::codec::gpu::lz77 {

inline constexpr std::uint32_t kUnitBytes = 16;
// Streams that rounds have a share of each of, at most.
inline constexpr std::uint32_t kMostSharing = 4096;

// Of a batch; by `scan_rounds`.
struct RoundTotals {
  std::uint32_t per_round;  // units
  std::uint32_t shares;     // of each stream; 1: whole streams
};

struct Rounds {
  std::uint32_t count = 1, per_round = 0;  // rounds, and units of one, at most
  // In scratch.
  RoundTotals* totals = nullptr;
  std::uint32_t* parts = nullptr;   // for each stream, count + 1: its first piece of the round or of a later one
  std::uint64_t* shares = nullptr;  // for each share and stream: where its pieces are in the sum, less needed_before
};

// From the limits of a batch.
struct RoundSizes {
  std::uint64_t units = 0;  // of places
  std::uint32_t count = 1, per_round = 0;

  // Bytes of places: the decoded size and so many more.
  static constexpr std::uint64_t kMoreBytes = 40 << 20;

  // `most_bytes`: fewer of them, for tests.
  RoundSizes(std::uint64_t dst_bytes, std::uint64_t pieces, std::uint32_t most_piece_units,
             std::uint64_t most_bytes = ~std::uint64_t{0}) {
    // A byte of output takes a byte if it is a literal; three take a slot and its part of a checkpoint if it is a
    // match.
    const std::uint64_t all = dst_bytes / 64 * 11 + 11 + 4 * pieces;
    units = dst_bytes + kMoreBytes;
    units = (units < most_bytes ? units : most_bytes) / kUnitBytes;
    if (units < 2 * most_piece_units) units = 2 * most_piece_units;
    if (units >= all) {
      units = all;
      per_round = static_cast<std::uint32_t>(all < kMost ? all : kMost);
    } else {
      per_round = static_cast<std::uint32_t>(units - most_piece_units < kMost ? units - most_piece_units : kMost);
      count = static_cast<std::uint32_t>(all / per_round + 1);
    }
  }
  std::uint64_t parts_bytes(std::uint64_t streams) const { return streams * (count + 1) * sizeof(std::uint32_t); }
  std::uint64_t shares_bytes(std::uint64_t streams) const {
    return count == 1 ? 0 : (streams < kMostSharing ? streams : kMostSharing) * count * sizeof(std::uint64_t);
  }
  Rounds rounds(std::byte* totals, std::byte* parts, std::byte* shares) const {
    return {count, per_round, reinterpret_cast<RoundTotals*>(totals), reinterpret_cast<std::uint32_t*>(parts),
            reinterpret_cast<std::uint64_t*>(shares)};
  }

 private:
  static constexpr std::uint64_t kMost = 0xF0000000;  // 60 GiB: numbers of units have 32 bits
};

}  // namespace headrace::codec::gpu::lz77
