// The zstd decoder's steps, in launch order, and what they share. Device code without a CUDA header.
//
// Once per batch:
//   chains     one thread block per part of a stream, for few and long streams: finds consecutive blocks
//                                                                                   zstd_chains_device.cuh
//   frames     one thread per stream: frame and block headers become RawBlocks
//   scan       one thread block: where each stream's Blocks begin
//   parse      one thread per block, in a warp of its own where they are few: headers of its two sections, and where
//              its tables are described
//   sources    one warp per stream: which block's tables apply where a block repeats them; scratch that blocks need
//   scan       one thread block: the sums of that, by shares of streams
//   place      one thread per block: its region and round
//   list       one thread per block: blocks with Huffman literals and blocks with sequences, by round
//              these four in one launch of one thread block, where streams and blocks are few
// For each round:
//   segments   several segments of a Block per thread block, one lane each: the FSE states, where there is an index
//              in one launch with literals                                        zstd_segments_device.cuh
//   literals   one thread block per Huffman stream, or one warp per Block: into scratch
//                                                                                 zstd_literals_device.cuh
//   walk       one warp per 1, 4 or 8 Blocks: the FSE states, one lane each        zstd_walk_device.cuh
//              with 1, in one launch with literals                                zstd_entropy_device.cuh
//   extract    one thread block per Block: lengths and offsets, symbolic repeats   zstd_sequences_device.cuh
//   settle     one warp per stream: where blocks begin; repeat offsets at their beginning
//   check      one thread block per Block: resolves offsets and checks them against what has been decoded
//   and the output, in one of the three ways of codecs/lz77                        zstd_output_device.cuh
// At the end:
//   checksums  one warp per frame with a checksum                                  zstd_checksum_device.cuh
//
// After `check`, only the checksum of a block can be wrong. Every step skips bad chunks, so none reads what an earlier
// step did not write.
//
// kHostOnly has position 0, so it wins over every other finding in a stream: consequences of bytes that versions of
// libzstd read differently must not decide. If a stream has several faults, the order of thread blocks determines which
// one is reported, but not whether one is.
#pragma once

#include "codecs/lz77/lz77_device.cuh"
#include "codecs/lz77/lz77_outcome_device.cuh"
#include "codecs/lz77/lz77_rounds_device.cuh"
#include "zstd_device.cuh"
#include "zstd_layout.h"

#if defined(__CUDACC__) || defined(__clang__)
#define HEADRACE_ZSTD_PRAGMA(text) _Pragma(#text)
#define HEADRACE_ZSTD_UNROLL _Pragma("unroll")
#define HEADRACE_ZSTD_UNROLL_BY(count) HEADRACE_ZSTD_PRAGMA(unroll count)
#else
#define HEADRACE_ZSTD_UNROLL
#define HEADRACE_ZSTD_UNROLL_BY(count)
#endif

namespace headrace::codec::gpu::zstd {

using device::DecodeReason;

using lz77::fine, lz77::fine_for_block, lz77::fine_for_warp, lz77::give_up;
using lz77::kAllLanes, lz77::lane_id, lz77::sum_upto;

struct Job {
  ZstdStream* streams = nullptr;
  const std::uint32_t* count = nullptr;
  std::uint32_t max_streams = 0;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
  bool exact = true, single_frame = false;
  Allowance allowance;
  lz77::Rounds rounds;
  lz77::TileJob tiles;
  // The following are in scratch.
  Totals* totals = nullptr;  // zeroed before the launches
  Round* round = nullptr;    // zeroed before the launches
  StreamState* states = nullptr;
  HeaderChain* chains = nullptr;  // one per part; null: not used
  std::uint32_t* links = nullptr;
  std::uint32_t max_parts = 0, part_bytes = kPartBytes;
  RawBlock* raw = nullptr;
  Block* blocks = nullptr;
  std::uint32_t* trees = nullptr;  // blocks by round: see Round
  std::uint32_t* walks = nullptr;
  Byte* places = nullptr;
  device::gpu::IndexMemory index;

  __device__ std::uint32_t stream_count() const { return *count < max_streams ? *count : max_streams; }
  __device__ lz77::StreamNeeds needs(std::uint32_t i) const {
    const StreamState& state = states[i];
    return {state.first, state.count, state.units, state.units_before};
  }
  __device__ std::uint32_t needed_before(std::uint32_t x) const { return blocks[x].units_before; }
  __device__ bool has_index() const { return index.entries != nullptr; }
  // REQUIRES: the block's `index` is not kNot.
  __device__ IndexEntry* entries_of(const Block& block, std::uint32_t chunk) const {
    return reinterpret_cast<IndexEntry*>(index.entries + chunk * index.stride) + block.entry;
  }
  __device__ Byte* literals_of(const Block& block) const { return places + std::uint64_t{block.place} * kUnitBytes; }
  __device__ std::uint64_t* slots_of(const Block& block) const {
    const std::uint32_t units = block.literals == LiteralsKind::kHuffman ? literal_units(block.literal_bytes) : 0;
    return reinterpret_cast<std::uint64_t*>(places + (std::uint64_t{block.place} + units) * kUnitBytes);
  }
  __device__ Checkpoint* checkpoints_of(const Block& block) const {
    return reinterpret_cast<Checkpoint*>(slots_of(block) + 2 * std::uint64_t{slot_units(block.sequences)});
  }
};

__device__ inline unsigned lanes_below(unsigned lane) { return (1u << lane) - 1; }
// REQUIRES: v is not 0.
__device__ inline unsigned top_bit(unsigned v) { return 31 - static_cast<unsigned>(__clz(v)); }

__device__ inline std::uint32_t u16_at(const Byte* at) { return at[0] | static_cast<std::uint32_t>(at[1]) << 8; }
__device__ inline std::uint32_t u24_at(const Byte* at) { return u16_at(at) | static_cast<std::uint32_t>(at[2]) << 16; }
__device__ inline std::uint32_t u32_at(const Byte* at) { return u16_at(at) | u16_at(at + 2) << 16; }

// The aligned word at `at`; bytes from `end` on are not read and count as 0.
__device__ inline std::uint32_t word_before(const Byte* at, const Byte* end) {
  if (at + 4 <= end) return *reinterpret_cast<const std::uint32_t*>(at);
  std::uint32_t out = 0;
  for (unsigned k = 0; k < 4; ++k) {
    if (at + k < end) out |= static_cast<std::uint32_t>(at[k]) << (8 * k);
  }
  return out;
}

// A bit stream that is read backwards, in 32-bit words. Bit 0 is the lowest bit of the aligned word that contains the
// first byte; the stream's bits are [lead, lead + size). REQUIRES: the four bytes before the stream are readable.
struct BackwardBits {
  const Byte* base;  // aligned
  const Byte* end;
  std::int32_t lead;

  __device__ BackwardBits() : base(nullptr), end(nullptr), lead(0) {}
  __device__ BackwardBits(const Byte* at, std::uint32_t bytes) {
    const auto off = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at) & 3);
    base = at - off;
    end = at + bytes;
    lead = static_cast<std::int32_t>(off * 8);
  }
  // Where reading begins: below the highest set bit. REQUIRES: the last byte is not 0.
  __device__ std::int32_t top() const {
    return static_cast<std::int32_t>((end - 1 - base) * 8) + static_cast<std::int32_t>(top_bit(end[-1]));
  }
  // Words outside the stream are 0.
  __device__ std::uint32_t word(std::int32_t i) const {
    return i < 0 ? 0 : word_before(base + 4 * static_cast<std::int64_t>(i), end);
  }
  // The 32 bits from `low` on.
  __device__ std::uint32_t bits(std::int32_t low) const {
    const std::int32_t i = low >> 5;
    return __funnelshift_r(word(i), word(i + 1), static_cast<unsigned>(low) & 31);
  }
  // Whether the three words that hold the 64 bits below `high` are complete.
  __device__ bool is_whole_below(std::int32_t high) const {
    const std::int32_t i = (high - 64) >> 5;
    return i >= 0 && base + 4 * static_cast<std::int64_t>(i) + 12 <= end;
  }
  struct Words {
    std::uint32_t low, middle, high;
  };
  // REQUIRES: is_whole_below(high).
  __device__ Words whole_below(std::int32_t high) const {
    const auto* const at =
        reinterpret_cast<const std::uint32_t*>(base + 4 * static_cast<std::int64_t>((high - 64) >> 5));
    return {at[0], at[1], at[2]};
  }
  __device__ Words words_below(std::int32_t high) const {
    const std::int32_t i = (high - 64) >> 5;
    return {word(i), word(i + 1), word(i + 2)};
  }
  // The 64 bits below `high`.
  __device__ static std::uint64_t bits_below(std::int32_t high, const Words& words) {
    const unsigned by = static_cast<unsigned>(high) & 31;
    return static_cast<std::uint64_t>(__funnelshift_r(words.middle, words.high, by)) << 32 |
           __funnelshift_r(words.low, words.middle, by);
  }
};

// Offsets of the arrays in scratch, derived from the limits alone.
struct Layout {
  static constexpr std::uint32_t kMaxParts = 96;
  std::uint64_t block_count = 0;  // upper bound
  std::uint64_t totals = 0, round = 0, zeroed_bytes = 0, states = 0, chains = 0, links = 0, raw = 0, blocks = 0,
                trees = 0, walks = 0, round_totals = 0, parts = 0, shares = 0, places = 0, tiles = 0, end = 0;
  lz77::RoundSizes rounds;
  lz77::TileLayout tile_layout;

  // `most_bytes`: limits the size, for tests.
  Layout(const lz77::StreamLimits& limits, const Allowance& allowance, std::uint64_t most_bytes = ~std::uint64_t{0})
      : Layout(limits, allowance, most_bytes, lz77::TileLayout(limits.min_streams, limits.streams, limits.dst_bytes)) {}
  Layout(const lz77::StreamLimits& limits, const Allowance& allowance, std::uint64_t most_bytes,
         const lz77::TileLayout& output_tiles)
      : block_count(std::uint64_t{limits.streams} * allowance.base + limits.dst_bytes / allowance.bytes_per_block),
        rounds(limits.dst_bytes, block_count, kMaxBlockUnits, most_bytes),
        tile_layout(output_tiles) {
    const auto take = [this](std::uint64_t bytes) {
      const std::uint64_t at = end;
      end += (bytes + 255) / 256 * 256;
      return at;
    };
    totals = take(sizeof(Totals));
    round = take(rounds.count * sizeof(Round));
    zeroed_bytes = end;
    states = take(limits.streams * sizeof(StreamState));
    chains = take(kMaxParts * sizeof(HeaderChain));
    links = take(kMaxParts * kMaxLinks * sizeof(std::uint32_t));
    raw = take(block_count * sizeof(RawBlock));
    blocks = take(block_count * sizeof(Block));
    trees = take(block_count * sizeof(std::uint32_t));
    walks = take(block_count * sizeof(std::uint32_t));
    round_totals = take(sizeof(lz77::RoundTotals));
    parts = take(rounds.parts_bytes(limits.streams));
    shares = take(rounds.shares_bytes(limits.streams));
    places = take(rounds.units * kUnitBytes);
    tiles = take(tile_layout.bytes());
  }
  // `with_chains`: the step of that name will be launched.
  void fill_in(Job& job, std::byte* scratch, bool with_chains) const {
    job.rounds = rounds.rounds(scratch + round_totals, scratch + parts, scratch + shares);
    job.totals = reinterpret_cast<Totals*>(scratch + totals);
    job.round = reinterpret_cast<Round*>(scratch + round);
    job.states = reinterpret_cast<StreamState*>(scratch + states);
    job.chains = with_chains ? reinterpret_cast<HeaderChain*>(scratch + chains) : nullptr;
    job.links = reinterpret_cast<std::uint32_t*>(scratch + links);
    job.max_parts = kMaxParts;
    job.raw = reinterpret_cast<RawBlock*>(scratch + raw);
    job.blocks = reinterpret_cast<Block*>(scratch + blocks);
    job.trees = reinterpret_cast<std::uint32_t*>(scratch + trees);
    job.walks = reinterpret_cast<std::uint32_t*>(scratch + walks);
    job.places = reinterpret_cast<Byte*>(scratch + places);
    job.tiles = tile_layout.job(scratch + tiles);
  }
};

}  // namespace headrace::codec::gpu::zstd

namespace headrace::codec::gpu {
inline std::uint64_t zstd_scratch_bytes(const lz77::StreamLimits& limits) noexcept {
  return zstd::Layout(limits, {}).end;
}
}  // namespace headrace::codec::gpu
