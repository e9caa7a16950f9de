// Data structures that the steps of the DEFLATE decoder exchange through scratch. Needs no CUDA header.
//
// A stream is cut into segments of 4 KiB. In each segment, at most one bit is known at which a block may begin. A run
// starts there and continues, block by block, to where the next run begins. A block's bits are cut into cells. For each
// cell, the decoder records where its first code word begins and what it decodes to, so that cells can be decoded again
// in any order. Pieces are the units that go on to the output: cells of a block that decode to at most 128 KiB, or a
// stored block.
//
// The position of a run's blocks and cells in their arrays follows from where the run begins, so no allocation is
// needed. A run at bit b, in segment s of its stream, has blocks from s * blocks_each on, and cells from b / kCellBits
// + s * (blocks_each + 1) on, within the stream's share, up to where the next run's begin.
//
// Pieces are decoded in rounds (codecs/lz77/lz77_rounds.h). A piece's region in scratch consists of these parts, each
// aligned to 16 bytes:
//   literals     literal_bytes bytes
//   slots        a Sequence for each match, 64 bits
//   checkpoints  a Checkpoint for each 32 sequences, and one after them
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/lz77/lz77_layout.h"
#include "codecs/lz77/lz77_rounds.h"

namespace headrace::codec::gpu::deflate {

using lz77::Byte, lz77::Checkpoint, lz77::kGroup, lz77::kUnitBytes;

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};
inline constexpr std::uint32_t kSegmentBytes = 4096, kSegmentBits = 8 * kSegmentBytes;
// No cell decodes to more than 101 KiB, because a match has at least two bits. The number of words is odd, so that
// lanes that read their own cells access different banks of shared memory.
inline constexpr std::uint32_t kCellBits = 800;
inline constexpr std::uint32_t kCellWords = kCellBits / 32;
static_assert(kCellBits % 64 == 32);
inline constexpr std::uint32_t kMaxPieceBytes = 128 << 10;
inline constexpr std::uint32_t kMaxSequences = kMaxPieceBytes / 3;
inline constexpr std::uint32_t kMaxEncodedBytes = (1u << 28) - 2 * kSegmentBytes, kMaxDecodedBytes = 1u << 30;

inline constexpr unsigned kLiteralSymbols = 288, kDistanceSymbols = 32, kSymbols = kLiteralSymbols + kDistanceSymbols;

// `symbols`, from the lowest bit: bits of the cell before its first code word (6), literals (10), matches (9), and
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
  std::uint32_t at;     // stored: its first byte; otherwise the bit of its first code word
  std::uint32_t bytes;  // decoded size
  std::uint32_t first_cell, cells;
  std::uint32_t pieces;      // none for an empty block, unless it ends a member
  std::uint32_t trailer_at;  // byte after a member's last block; otherwise kNone
  BlockKind kind;
  std::uint32_t lengths[kSymbols / 8];  // dynamic: lengths of code words, four bits each
};

enum class RunStatus : std::uint32_t {
  kLinked,  // the next run begins where this one ends
  kEnded,   // ends with the stream
  kPassed,  // the next run begins inside one of its blocks
  kBad,
};

struct Run {
  // Written by `trace` and `chain`.
  std::uint32_t at;  // the bit after its last block, or where the run begins
  RunStatus status;
  std::uint32_t reason, bad_at;  // if kBad
  std::uint32_t blocks, cells;
  std::uint32_t bytes, pieces, units;
  bool ends_member;
  std::uint32_t member_bytes, member_pieces;  // since the end of the last member, if any
  // Written by `chain`: totals of the stream before this run, and where its first member begins.
  std::uint32_t out_before, pieces_before, units_before, member_out, member_piece;
};

struct OutputRun {
  std::uint32_t stream, block;
  std::uint32_t first_cell, cells;
  std::uint32_t bytes, literal_bytes, sequences;
  std::uint32_t out, member_out;  // offsets of the piece and of its member in the stream's output
  std::uint32_t member_piece;     // first piece of the member
  std::uint32_t trailer_at;       // for the last piece of a member: the byte after it; otherwise kNone
  std::uint32_t at;               // stored: its first byte
  std::uint32_t units_before;     // units of the stream's pieces before this one
  std::uint32_t round, place;     // written by `place`
  bool stored;
};

struct StreamState {
  std::uint32_t segments, first_segment;
  std::uint32_t blocks_each;  // per segment
  std::uint32_t blocks, first_block, cells, first_cell;
  std::uint32_t start;  // bit of the first block
  // The last `searched` segments are searched for blocks, from bit `search_from` on, which is after the leading stored
  // blocks.
  std::uint32_t searched, first_searched, search_from;
  std::uint32_t pieces, first_piece;  // written by `chain` and `scan`
  std::uint64_t units, units_before;
  std::uint32_t out;
};

// A piece's contribution to its member's checksum; a member's first piece also holds the sums of all its pieces.
struct Sums {
  std::uint32_t first, second;
  unsigned long long member_first, member_second;
};

struct Round {
  bool any;                     // written by `place`: whether there are pieces to decode
  std::uint32_t decode_ticket;  // of all pieces
  lz77::Progress output;
};

struct Totals {
  std::uint32_t segments, searched, runs, pieces;  // over all streams
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

// How many blocks a stream may have, averaged over a few segments; a stream with more is left to the CPU. zlib makes
// blocks of 16,384 symbols, libdeflate of at least 5,000 decoded bytes, however well these compress; flushes make
// smaller ones.
struct Allowance {
  std::uint32_t blocks_per_segment = 3;
  std::uint32_t bytes_per_block = 8192;  // plus one block for each so many decoded bytes
  __host__ __device__ std::uint32_t of_segment(std::uint64_t decoded_bytes, std::uint32_t segments) const {
    return blocks_per_segment + static_cast<std::uint32_t>(decoded_bytes / bytes_per_block / segments) + 1;
  }
};
// Number of cells of a stream.
__host__ __device__ constexpr std::uint32_t cells_of(std::uint32_t segments, std::uint32_t blocks_each) {
  return static_cast<std::uint32_t>(std::uint64_t{segments} * kSegmentBits / kCellBits) + 1 +
         segments * (blocks_each + 1);
}

}  // namespace headrace::codec::gpu::deflate
