// What the steps of the DEFLATE decoder leave for each other in scratch. No CUDA header is needed here.
//
// A stream is cut into segments of 4 KiB. In each of them at most one bit is known at which a block may begin: a run
// begins there, block by block, up to where the next run begins. A block's bits are cut into cells; of each cell it is
// noted where its first code word begins and what it decodes to, so that cells can be decoded again in any order.
// Pieces are what goes on to the output: cells of a block that decode to 128 KiB at most, or a stored block.
//
// Where a run's blocks and cells are noted follows from where it begins, so nothing has to be handed out: run at bit b,
// in segment s of its stream, has blocks from s * blocks_each on, and cells from b / kCellBits + s * (blocks_each + 1)
// on, of the stream's, up to where the next run's begin.
//
// Pieces are decoded in rounds (codecs/lz77/lz77_rounds.h). Within its place a piece has, each part aligned to 16
// bytes:
//   literals     literal_bytes bytes
//   slots        a Sequence for each match, 64 bits
//   checkpoints  a Checkpoint for each 32 sequences, and one behind them
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/lz77/lz77_layout.h"
#include "codecs/lz77/lz77_rounds.h"

namespace headrace::codec::gpu::deflate {

using lz77::Byte, lz77::Checkpoint, lz77::kGroup, lz77::kUnitBytes;

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};
inline constexpr std::uint32_t kSegmentBytes = 4096, kSegmentBits = 8 * kSegmentBytes;
// No cell decodes to more than 101 KiB: a match has two bits at least. An odd number of words, so that lanes which read
// their cells side by side do so from different banks of shared memory.
inline constexpr std::uint32_t kCellBits = 800;
inline constexpr std::uint32_t kCellWords = kCellBits / 32;
static_assert(kCellBits % 64 == 32);
inline constexpr std::uint32_t kMaxPieceBytes = 128 << 10;
inline constexpr std::uint32_t kMaxSequences = kMaxPieceBytes / 3;
inline constexpr std::uint32_t kMostEncodedBytes = (1u << 28) - 2 * kSegmentBytes, kMostDecodedBytes = 1u << 30;

inline constexpr unsigned kLiteralSymbols = 288, kDistanceSymbols = 32, kSymbols = kLiteralSymbols + kDistanceSymbols;

// `symbols`: from the lowest bit on, bits of the cell before its first code word (6), literals (10), matches (9), and
// whether a piece begins with it.
struct Cell {
  static constexpr unsigned kLiteralShift = 6, kMatchShift = 16, kFirstShift = 25;
  std::uint32_t symbols, match_bytes;

  __host__ __device__ std::uint32_t entry() const { return symbols & 63; }
  __host__ __device__ std::uint32_t literals() const { return symbols >> kLiteralShift & 1023; }
  __host__ __device__ std::uint32_t matches() const { return symbols >> kMatchShift & 511; }
  __host__ __device__ bool first() const { return (symbols >> kFirstShift & 1) != 0; }
};

enum class BlockKind : std::uint8_t { kStored, kFixed, kDynamic };

struct Block {
  std::uint32_t at;     // stored: its first byte; else the bit of its first code word
  std::uint32_t bytes;  // decoded
  std::uint32_t first_cell, cells;
  std::uint32_t pieces;      // of an empty block none, unless it ends a member
  std::uint32_t trailer_at;  // byte behind a member's last block; else kNone
  BlockKind kind;
  std::uint32_t lengths[kSymbols / 8];  // dynamic: of code words, four bits each
};

enum class RunStatus : std::uint32_t {
  kLinked,  // the next run begins where it ends
  kEnded,   // with the stream
  kPassed,  // the next run begins inside one of its blocks
  kBad,
};

struct Run {
  // by `trace` and `chain`
  std::uint32_t at;  // the bit behind its last block, or where it begins
  RunStatus status;
  std::uint32_t reason, bad_at;  // kBad
  std::uint32_t blocks, cells;
  std::uint32_t bytes, pieces, units;
  bool ends_member;
  std::uint32_t member_bytes, member_pieces;  // since the last member's end, if any
  // by `chain`: what is before it in the stream, and where the member begins that it begins in
  std::uint32_t out_before, pieces_before, units_before, member_out, member_piece;
};

struct OutputRun {
  std::uint32_t stream, block;
  std::uint32_t first_cell, cells;
  std::uint32_t bytes, literal_bytes, sequences;
  std::uint32_t out, member_out;  // where it and its member begin, in the stream's output
  std::uint32_t member_piece;     // the member's first
  std::uint32_t trailer_at;       // byte behind the last piece of a member; else kNone
  std::uint32_t at;               // stored: its first byte
  std::uint32_t units_before;     // of the stream's pieces before this one
  std::uint32_t round, place;     // by `place`
  bool stored;
};

struct StreamState {
  std::uint32_t segments, first_segment;
  std::uint32_t blocks_each;  // of a segment
  std::uint32_t blocks, first_block, cells, first_cell;
  std::uint32_t start;  // bit of the first block
  // The last so many segments are searched for blocks, from this bit on: it is behind stored ones.
  std::uint32_t searched, first_searched, search_from;
  std::uint32_t pieces, first_piece;  // by `chain` and `scan`
  std::uint64_t units, units_before;
  std::uint32_t out;
};

// What a piece gives to its member's checksum; of a member's first piece also the sums of all its pieces.
struct Sums {
  std::uint32_t first, second;
  unsigned long long member_first, member_second;
};

struct Round {
  bool any;                     // by `place`: whether there are pieces to decode
  std::uint32_t decode_ticket;  // of all pieces
  lz77::Progress output;
};

struct Totals {
  std::uint32_t segments, searched, runs, pieces;  // of all streams
  std::uint32_t find_ticket, trace_ticket, chain_ticket;
};

__host__ __device__ constexpr std::uint32_t literal_units(std::uint32_t bytes) {
  return (bytes + kUnitBytes - 1) / kUnitBytes;
}
__host__ __device__ constexpr std::uint32_t slot_units(std::uint32_t sequences) { return (sequences + 1) / 2; }
__host__ __device__ constexpr std::uint32_t checkpoint_units(std::uint32_t sequences) {
  return (lz77::checkpoints_of(sequences) + 1) / 2;
}
inline constexpr std::uint32_t kMaxPieceUnits =
    literal_units(kMaxPieceBytes) + slot_units(kMaxSequences) + checkpoint_units(kMaxSequences);

// How many blocks a stream may have, on an average over a few segments. Of more, it is left to the CPU. zlib makes
// blocks of 16,384 symbols, libdeflate of 5,000 bytes and more, however little is left of them; flushes make smaller
// ones.
struct Allowance {
  std::uint32_t blocks_per_segment = 3;
  std::uint32_t bytes_per_block = 8192;  // and one for each so many decoded ones
  __host__ __device__ std::uint32_t of_segment(std::uint64_t decoded_bytes, std::uint32_t segments) const {
    return blocks_per_segment + static_cast<std::uint32_t>(decoded_bytes / bytes_per_block / segments) + 1;
  }
};
// Of a stream.
__host__ __device__ constexpr std::uint32_t cells_of(std::uint32_t segments, std::uint32_t blocks_each) {
  return static_cast<std::uint32_t>(std::uint64_t{segments} * kSegmentBits / kCellBits) + 1 +
         segments * (blocks_each + 1);
}

}  // namespace headrace::codec::gpu::deflate
