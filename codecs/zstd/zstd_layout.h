// Data structures that the steps of the zstd decoder exchange through scratch. Needs no CUDA header.
//
// A stream is one or more frames, a frame one or more blocks. The blocks of all streams of a batch form one list, in
// order. zstd_frames_device.cuh fills in the first half of a Block; the steps named in the struct write the second
// half.
//
// Blocks are the pieces that are decoded in rounds (codecs/lz77/lz77_rounds.h).
//
// A block's region in scratch consists of these parts, each aligned to 16 bytes:
//   literals     literal_bytes bytes, if they are Huffman-coded (raw ones are in the input, RLE ones are one byte)
//   slots        a 64-bit word for each sequence
//   checkpoints  a Checkpoint for each 32 sequences, and one after them
//
// The walk first stores its results in a slot (low word: WalkWord; high word: bit position where the extra bits end).
// The slot then becomes a Sequence of codecs/lz77, whose offset `check` resolves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/lz77/lz77_layout.h"
#include "codecs/lz77/lz77_rounds.h"

namespace headrace::codec::gpu::zstd {

using lz77::Byte, lz77::Checkpoint, lz77::kGroup, lz77::kOffsetBits, lz77::kUnitBytes;

inline constexpr std::uint32_t kMaxBlockBytes = 128 << 10;
inline constexpr std::uint32_t kMaxSequences = kMaxBlockBytes / 3;  // each decodes to at least three bytes
inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// Decode index: for every Block, in order, one entry after each kIndexEvery sequences, none after the last sequence.
// The number of entries follows from the headers. Stored little-endian.
inline constexpr std::uint32_t kIndexEvery = 256;
struct IndexEntry {
  std::uint32_t at;  // bits left in the sequences' bit stream
  std::uint32_t states;
  // Shifts of the packed state numbers.
  static constexpr unsigned kOffset = 9, kMatch = 17;
};
static_assert(sizeof(IndexEntry) == 8);
__host__ __device__ constexpr std::uint32_t index_entries(std::uint32_t sequences) {
  return sequences == 0 ? 0 : (sequences - 1) / kIndexEvery;
}
// Upper bound on the bytes of all entries of a chunk: a sequence decodes to at least three bytes.
__host__ __device__ constexpr std::uint64_t max_index_bytes(std::uint64_t decoded_bytes) {
  return (decoded_bytes / (3 * kIndexEvery) * sizeof(IndexEntry) + 15) / 16 * 16;
}

// An offset before it is resolved: either a distance in bytes, or "repeat offset `slot` at the beginning of the block,
// minus `k`". Values up to kMaxOffset are distances; the rest encode slot and k. k stays below 2^17, since each
// decrement takes a sequence and no block has that many.
inline constexpr std::uint32_t kLessBits = 17;
inline constexpr std::uint32_t kSymbolic = (1u << kOffsetBits) - (3u << kLessBits);
inline constexpr std::uint32_t kMaxOffset = kSymbolic - 1;
// Longer streams, encoded or decoded, are left to the CPU.
inline constexpr std::uint32_t kMaxStreamBytes = (1u << kOffsetBits) - (1u << 19);
static_assert(kMaxStreamBytes + 3 < kMaxOffset);

// Where the walk puts a sequence's codes in the low word of its slot. The other bits are undefined.
struct WalkWord {
  static constexpr unsigned kLiteral = 12, kOffset = 18, kMatch = 24;
};

enum class BlockKind : std::uint8_t { kRaw, kRle, kCompressed };
enum class LiteralsKind : std::uint8_t { kRaw, kRle, kHuffman };
enum class IndexUse : std::uint8_t { kNot, kCollect, kWalk };
enum class TableMode : std::uint8_t { kPredefined, kRle, kFse, kRepeat };
// In the order of the sequences section's modes byte.
enum Table : unsigned { kLiteralLengths, kOffsets, kMatchLengths, kTables };

struct Block {
  std::uint32_t stream;
  std::uint32_t at, bytes;      // the content, in the stream; RLE: bytes is 1
  std::uint32_t decoded_bytes;  // compressed: written by `settle`
  std::uint32_t window;         // the frame's window size, at most kMaxStreamBytes
  std::uint32_t frame_bytes;    // decoded size declared by the frame, or kNone
  BlockKind kind;
  LiteralsKind literals;
  bool first, last;  // block of its frame
  bool checksum;     // the frame ends with a checksum
  bool own_tree;
  std::uint8_t literal_streams;       // Huffman: 1 or 4
  TableMode modes[kTables];           // defined if there are sequences
  IndexUse index;                     // written by `place`
  bool rewalk;                        // written by `segments`: the index is wrong
  std::uint32_t literals_at;          // raw: the bytes; RLE: the byte; Huffman: the streams
  std::uint32_t literal_bytes;        // decoded
  std::uint32_t huffman_bytes;        // encoded size of the Huffman streams
  std::uint32_t tree_at;              // defined if own_tree
  std::uint32_t sequences;            // 0 if there are none
  std::uint32_t table_at[kTables];    // kFse: the description; kRle: the symbol
  std::uint32_t bits_at, bits_bytes;  // the sequences' bit stream
  // Written by `sources`: the blocks whose tree and tables apply here.
  std::uint32_t tree_block, table_block[kTables];
  std::uint32_t units_before;  // units of the stream's blocks before this one
  std::uint32_t entry;         // number of its first index entry: within the stream; from `place` on, within the chunk
  // Written by `place`.
  std::uint32_t round, place;  // its region in the round's scratch
  // Written by `extract`.
  std::uint32_t match_bytes;                              // total length of its matches
  std::uint32_t repeats_after[3];                         // may be symbolic
  std::uint32_t max_offset, max_beyond, symbolic_groups;  // OffsetBounds
  // Written by `settle`.
  std::uint32_t out, frame_out;  // offsets of the block and of its frame in the stream's output
  std::uint32_t repeats[3];      // repeat offsets before the block
};

struct RawBlock {
  std::uint32_t at, frame_at;  // position of the block's and of the frame's header in the stream
};

// Consecutive blocks found ahead of the serial walk (zstd_chains_device.cuh).
struct HeaderChain {
  std::uint32_t first, next;  // where the first block begins, and where the last one ends
  std::uint32_t count;
  std::uint32_t raw_at, frame_at;  // written by `frames`: position in the list of RawBlocks, or kNone; frame's header
};
inline constexpr std::uint32_t kMaxLinks = 512;  // per chain
inline constexpr std::uint32_t kPartBytes = 1 << 20;

struct StreamState {
  std::uint32_t raw_first;     // in the list of RawBlocks
  std::uint32_t first, count;  // of its Blocks
  std::uint32_t out;           // bytes decoded by the rounds so far
  std::uint32_t frame_out;
  std::uint32_t repeats[3];
  std::uint64_t units, units_before;      // of its blocks; of all streams before it
  std::uint64_t entries, entries_before;  // likewise for index entries
  std::uint32_t entry;                    // number of its first index entry within the chunk
  IndexUse index;
};

struct Round {
  std::uint32_t blocks;     // written by `place`
  std::uint32_t first;      // first entry in `trees` and `walks`, which have one for each block of the round
  std::uint32_t many, few;  // entries of `walks`, from the front and from the back of the round's range
  std::uint32_t literals;   // entries of `trees`, from the front
  std::uint32_t rest;       // with indices: upper bound on the blocks to be walked without one
  std::uint32_t segment_ticket, literals_ticket, walk_ticket, extract_ticket, check_ticket;
  lz77::Progress output;
};

// Blocks with at least this many sequences start first.
inline constexpr std::uint32_t kManySequences = 4096;

struct Totals {
  std::uint32_t raw;        // RawBlocks that streams may have
  std::uint32_t blocks;     // in all streams
  std::uint32_t checksums;  // frames with a checksum
};

__host__ __device__ constexpr std::uint32_t literal_units(std::uint32_t bytes) {
  return (bytes + kUnitBytes - 1) / kUnitBytes;
}
__host__ __device__ constexpr std::uint32_t slot_units(std::uint32_t sequences) { return (sequences + 1) / 2; }
__host__ __device__ constexpr std::uint32_t checkpoint_units(std::uint32_t sequences) {
  return (lz77::checkpoints_of(sequences) + 1) / 2;
}
inline constexpr std::uint32_t kMaxBlockUnits =
    literal_units(kMaxBlockBytes) + slot_units(kMaxSequences) + checkpoint_units(kMaxSequences);

// How many blocks a stream may have; a stream with more is left to the CPU. Encoders write a block for each 128 KiB,
// and smaller ones where the statistics change or on a flush.
struct Allowance {
  std::uint32_t base = 4;
  std::uint32_t bytes_per_block = 4096;
  __host__ __device__ std::uint32_t of(std::uint64_t decoded_bytes) const {
    return base + static_cast<std::uint32_t>(decoded_bytes / bytes_per_block);
  }
};

}  // namespace headrace::codec::gpu::zstd
