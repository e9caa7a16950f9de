// What the steps of the zstd decoder leave for each other in scratch. No CUDA header is needed here.
//
// A stream is one or more frames, a frame one or more blocks; the blocks of all streams of a batch are one list, in
// order. zstd_frames_device.cuh fills in a Block's first half; its second half is written by the steps named there.
//
// Blocks are the pieces that are decoded in rounds (codecs/lz77/lz77_rounds.h).
//
// Within its place a block has, each part aligned to 16 bytes:
//   literals     literal_bytes bytes, if they are Huffman-coded (raw ones lie in the input, RLE ones are one byte)
//   slots        a 64-bit word for each sequence
//   checkpoints  a Checkpoint for each 32 sequences, and one behind them
//
// A slot is first what the walk knows (low word: WalkWord; high word: where the extra bits end), then a Sequence of
// codecs/lz77, which `check` has resolved the offset of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/lz77/lz77_layout.h"
#include "codecs/lz77/lz77_rounds.h"

namespace headrace::codec::gpu::zstd {

using lz77::Byte, lz77::Checkpoint, lz77::kGroup, lz77::kOffsetBits, lz77::kUnitBytes;

inline constexpr std::uint32_t kMaxBlockBytes = 128 << 10;
inline constexpr std::uint32_t kMaxSequences = kMaxBlockBytes / 3;  // each makes three bytes at least
inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// Decode index: for every Block, in order, an entry behind each kIndexEvery sequences but the last. How many there are
// follows from the headers. Little-endian, as it is stored.
inline constexpr std::uint32_t kIndexEvery = 256;
struct IndexEntry {
  std::uint32_t at;  // bits of the sequences' stream that are left
  std::uint32_t states;
  // The numbers of the states, side by side.
  static constexpr unsigned kOffset = 9, kMatch = 17;
};
static_assert(sizeof(IndexEntry) == 8);
__host__ __device__ constexpr std::uint32_t index_entries(std::uint32_t sequences) {
  return sequences == 0 ? 0 : (sequences - 1) / kIndexEvery;
}
// Most bytes of all entries of what decodes to so many: a sequence makes three.
__host__ __device__ constexpr std::uint64_t most_index_bytes(std::uint64_t decoded_bytes) {
  return (decoded_bytes / (3 * kIndexEvery) * sizeof(IndexEntry) + 15) / 16 * 16;
}

// An offset on its way: bytes back, or "what was repeat offset `slot` at the beginning of the block, less `k`".
// The first kMostOffset + 1 numbers are the former; the rest hold slot and k, as no block has more than 2^17 - 1
// sequences that could make it smaller.
inline constexpr std::uint32_t kLessBits = 17;
inline constexpr std::uint32_t kSymbolic = (1u << kOffsetBits) - (3u << kLessBits);
inline constexpr std::uint32_t kMostOffset = kSymbolic - 1;
// Streams that are longer, encoded or decoded, are left to the CPU.
inline constexpr std::uint32_t kMostStreamBytes = (1u << kOffsetBits) - (1u << 19);
static_assert(kMostStreamBytes + 3 < kMostOffset);

// Where the walk puts a sequence's codes, in the low word of its slot. The other bits are not anything.
struct WalkWord {
  static constexpr unsigned kLiteral = 12, kOffset = 18, kMatch = 24;
};

enum class BlockKind : std::uint8_t { kRaw, kRle, kCompressed };
enum class LiteralsKind : std::uint8_t { kRaw, kRle, kHuffman };
enum class IndexUse : std::uint8_t { kNot, kCollect, kWalk };
enum class TableMode : std::uint8_t { kPredefined, kRle, kFse, kRepeat };
// In the order of the format's section.
enum Table : unsigned { kLiteralLengths, kOffsets, kMatchLengths, kTables };

struct Block {
  std::uint32_t stream;
  std::uint32_t at, bytes;      // the content, in the stream; RLE: bytes is 1
  std::uint32_t decoded_bytes;  // compressed: by `settle`
  std::uint32_t window;         // of its frame, at most kMostStreamBytes
  std::uint32_t frame_bytes;    // what its frame promises to decode to, or kNone
  BlockKind kind;
  LiteralsKind literals;
  bool first, last;  // of its frame
  bool checksum;     // its frame ends with one
  bool own_tree;
  std::uint8_t literal_streams;       // Huffman: 1 or 4
  TableMode modes[kTables];           // where there are sequences
  IndexUse index;                     // by `place`
  bool rewalk;                        // by `segments`: the index is wrong
  std::uint32_t literals_at;          // raw: the bytes; RLE: the byte; Huffman: the streams
  std::uint32_t literal_bytes;        // decoded
  std::uint32_t huffman_bytes;        // of the streams
  std::uint32_t tree_at;              // own_tree
  std::uint32_t sequences;            // 0 where there are none
  std::uint32_t table_at[kTables];    // kFse: the description; kRle: the symbol
  std::uint32_t bits_at, bits_bytes;  // the sequences' bit stream
  // by `sources`: blocks whose description holds
  std::uint32_t tree_block, table_block[kTables];
  std::uint32_t units_before;  // of the stream's blocks before this one
  std::uint32_t entry;         // number of its first index entry; in the stream, from `place` on in the chunk
  // by `place`
  std::uint32_t round, place;  // in its round
  // by `extract`
  std::uint32_t match_bytes;                                // of all its matches
  std::uint32_t repeats_after[3];                           // symbolic
  std::uint32_t most_offset, most_beyond, symbolic_groups;  // OffsetBounds
  // by `settle`
  std::uint32_t out, frame_out;  // where the block and its frame begin, in the stream's output
  std::uint32_t repeats[3];      // before the block
};

struct RawBlock {
  std::uint32_t at, frame_at;  // of the block's and of the frame's header, in the stream
};

// Blocks that follow each other, found ahead (zstd_chains_device.cuh).
struct HeaderChain {
  std::uint32_t first, next;  // where the first one begins, and where the last one ends
  std::uint32_t count;
  std::uint32_t raw_at, frame_at;  // by `frames`: in the list of RawBlocks, or kNone; the frame that they are of
};
inline constexpr std::uint32_t kMostLinks = 512;  // of a chain
inline constexpr std::uint32_t kPartBytes = 1 << 20;

struct StreamState {
  std::uint32_t raw_first;     // in the list of RawBlocks
  std::uint32_t first, count;  // of its Blocks
  std::uint32_t out;           // decoded by the rounds so far
  std::uint32_t frame_out;
  std::uint32_t repeats[3];
  std::uint64_t units, units_before;      // of its blocks; of all streams before
  std::uint64_t entries, entries_before;  // the same, of the index
  std::uint32_t entry;                    // number of its first one in the chunk
  IndexUse index;
};

struct Round {
  std::uint32_t blocks;     // by `place`
  std::uint32_t first;      // entry of `trees` and `walks`, which have one for each of its blocks
  std::uint32_t many, few;  // entries of `walks`, from the front and from the back of the round's
  std::uint32_t literals;   // entries of `trees`, from the front
  std::uint32_t rest;       // where there are indices: blocks to be walked without, or more
  std::uint32_t segment_ticket, literals_ticket, walk_ticket, extract_ticket, check_ticket;
  lz77::Progress output;
};

// Blocks with that many sequences are begun first.
inline constexpr std::uint32_t kManySequences = 4096;

struct Totals {
  std::uint32_t raw;        // RawBlocks that streams may have
  std::uint32_t blocks;     // of all streams
  std::uint32_t checksums;  // frames that have one
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

// How many blocks a stream may have; of more, it is left to the CPU. Encoders make one for each 128 KiB, and smaller
// ones where the statistics change or they are told to flush.
struct Allowance {
  std::uint32_t base = 4;
  std::uint32_t bytes_per_block = 4096;
  __host__ __device__ std::uint32_t of(std::uint64_t decoded_bytes) const {
    return base + static_cast<std::uint32_t>(decoded_bytes / bytes_per_block);
  }
};

}  // namespace headrace::codec::gpu::zstd
