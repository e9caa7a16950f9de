// The DEFLATE decoder's steps, in the order of their launches, and what they share. Device code without a CUDA header.
//
// Once for a batch:
//   begin      a thread a stream: the first header; where streams are searched, a warp: stored blocks behind it, too
//   share      one thread block: where each stream's segments begin
//   find       a warp a part of a segment: bits at which dynamic blocks may begin     deflate_find_device.cuh
//   trace      a warp a run, or several: its blocks, and where cells' words begin    deflate_trace_device.cuh
//   chain      a warp a stream: runs that hang together with its beginning; gaps     deflate_chain_device.cuh
//   scan       one thread block: where each stream's pieces begin
//   list       a warp a run: its pieces                                              deflate_pieces_device.cuh
//   rounds     one thread block: sums of what pieces need, by shares of streams
//   place      a thread a piece: its place and round
// For each round:
//   decode     a warp a piece, or several: literals and sequences, distances checked
//   and the output, in one of the three ways of codecs/lz77                          deflate_output_device.cuh
// And at the end:
//   sums       a thread block a piece: its checksum, and the output of stored ones   deflate_checksum_device.cuh
//   join       a thread a piece: sums of members
//   verdict    a thread a member
//
// A run that begins where no block does decodes to nonsense, to the end of its block at most. Nothing hangs on it:
// `chain` begins at the stream's beginning and goes from run to run only where one ends exactly where the next begins.
// Where that fails, a warp decodes on from the end of the last good block, until a run begins where one of its blocks
// ends. So hostile bytes can cost a walk in order, and no more.
//
// A stream all of whose blocks are stored has nothing that refers to its output, so its pieces are written by `sums`,
// which reads them anyway, and not by codecs/lz77.
//
// After `decode` nothing can be wrong with a piece but its member's checksum. A step leaves alone what belongs to a bad
// chunk, so none reads what a step before did not write.
//
// kHostOnly has position 0, so it wins over whatever else a stream's steps find.
#pragma once

#include "codecs/lz77/lz77_device.cuh"
#include "codecs/lz77/lz77_outcome_device.cuh"
#include "codecs/lz77/lz77_rounds_device.cuh"
#include "deflate_device.cuh"
#include "deflate_layout.h"

#if defined(__CUDACC__) || defined(__clang__)
#define HEADRACE_DEFLATE_UNROLL _Pragma("unroll")
#else
#define HEADRACE_DEFLATE_UNROLL
#endif

namespace headrace::codec::gpu::deflate {

using device::DecodeReason;

using lz77::fine, lz77::fine_for_warp, lz77::give_up;
using lz77::kAllLanes, lz77::lane_id, lz77::sum_upto;

struct Job {
  DeflateStream* streams = nullptr;
  const std::uint32_t* count = nullptr;
  std::uint32_t most_streams = 0;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
  bool exact = true;
  Allowance allowance;
  lz77::Rounds rounds;
  std::uint32_t most_searched = 0;         // more streams are traced from their beginning, each by one warp
  std::uint32_t least_searched_bytes = 0;  // as are shorter ones
  std::uint32_t most_pass_turns = ~0u;     // of a stream: see pass_stored()
  lz77::TileJob tiles;
  // In scratch.
  Totals* totals = nullptr;  // zeroed before
  Round* round = nullptr;    // zeroed before
  StreamState* states = nullptr;
  std::uint32_t* starts = nullptr;    // by segment: the bit of its stream at which a run begins; kNone before
  std::uint32_t* run_list = nullptr;  // segments with runs
  Run* runs = nullptr;                // by segment
  Block* blocks = nullptr;
  Cell* cells = nullptr;
  OutputRun* pieces = nullptr;
  Sums* sums = nullptr;  // by piece
  Byte* places = nullptr;

  __device__ std::uint32_t stream_count() const { return *count < most_streams ? *count : most_streams; }
  __device__ bool any_searched() const { return stream_count() <= most_searched; }
  __device__ lz77::StreamNeeds needs(std::uint32_t i) const {
    const StreamState& state = states[i];
    return {state.first_piece, state.pieces, state.units, state.units_before};
  }
  __device__ std::uint32_t needed_before(std::uint32_t x) const { return pieces[x].units_before; }
  __device__ Byte* literals_of(const OutputRun& piece) const {
    return places + std::uint64_t{piece.place} * kUnitBytes;
  }
  __device__ std::uint64_t* slots_of(const OutputRun& piece) const {
    const std::uint64_t at = std::uint64_t{piece.place} + literal_units(piece.literal_bytes);
    return reinterpret_cast<std::uint64_t*>(places + at * kUnitBytes);
  }
  __device__ Checkpoint* checkpoints_of(const OutputRun& piece) const {
    return reinterpret_cast<Checkpoint*>(slots_of(piece) + 2 * std::uint64_t{slot_units(piece.sequences)});
  }
};

__device__ inline std::uint32_t take_ticket(std::uint32_t& counter, unsigned lane) {
  std::uint32_t ticket = 0;
  if (lane == 0) ticket = atomicAdd(&counter, 1u);
  return __shfl_sync(kAllLanes, ticket, 0);
}

__device__ inline unsigned lanes_below(unsigned lane) { return (1u << lane) - 1; }
// REQUIRES: v is not 0.
__device__ inline unsigned lowest_bit(unsigned v) { return static_cast<unsigned>(__ffs(v)) - 1; }
__device__ inline unsigned top_bit(unsigned v) { return 31 - static_cast<unsigned>(__clz(v)); }

// Sums that stop growing at 2^31 - 1. REQUIRES: no value is more.
__device__ inline std::uint32_t sum_capped(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kMost = (1u << 31) - 1;
  return a + b < kMost ? a + b : kMost;
}

// ---- bits ----

// A stream's bytes as aligned words. Bit 0 of the stream is bit `lead` of word 0.
struct Input {
  const Byte* src;
  std::uint32_t bytes, lead;

  __device__ Input(const Byte* at, std::uint64_t size)
      : src(at),
        bytes(static_cast<std::uint32_t>(size)),
        lead(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at) & 3) * 8) {}
  // Bits that are not in the stream are 0.
  __device__ std::uint32_t word(std::uint32_t i) const {
    const std::int64_t from = 4 * static_cast<std::int64_t>(i) - lead / 8;
    if (from >= 0 && from + 4 <= static_cast<std::int64_t>(bytes)) {
      return *reinterpret_cast<const std::uint32_t*>(src + from);
    }
    std::uint32_t out = 0;
    for (int k = 0; k < 4; ++k) {
      if (from + k >= 0 && from + k < static_cast<std::int64_t>(bytes)) {
        out |= static_cast<std::uint32_t>(src[from + k]) << (8 * k);
      }
    }
    return out;
  }
  // The 32 bits from `at` on.
  __device__ std::uint32_t bits(std::uint32_t at) const {
    const std::uint32_t bit = at + lead;
    return __funnelshift_r(word(bit >> 5), word((bit >> 5) + 1), bit & 31);
  }
};

// All threads of a thread block of several warps, or of one warp.
template <unsigned kWarps>
__device__ inline void sync_warps() {
  if constexpr (kWarps == 1) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// A part of a stream's bits in shared memory.
struct BitSpan {
  const std::uint32_t* words;
  std::uint32_t first;  // bit of the stream (and lead) that the first word begins with

  // By kWarps warps: `count` words from the one on that bit `at` is in.
  template <unsigned kWarps = 1>
  static __device__ BitSpan load(const Input& input, std::uint32_t at, std::uint32_t* to, std::uint32_t count,
                                 unsigned thread) {
    constexpr unsigned kThreads = 32 * kWarps, kAtOnce = 8;
    const std::uint32_t from = (at + input.lead) / 32;
    const std::int64_t first_byte = 4 * static_cast<std::int64_t>(from) - input.lead / 8;
    const bool inside =
        first_byte >= 0 && first_byte + 4 * static_cast<std::int64_t>(count) <= static_cast<std::int64_t>(input.bytes);
    sync_warps<kWarps>();
    std::uint32_t i = thread;
    if (inside) {
      const auto* const words = reinterpret_cast<const std::uint32_t*>(input.src + first_byte);
      for (; i + (kAtOnce - 1) * kThreads < count; i += kAtOnce * kThreads) {
        std::uint32_t held[kAtOnce];
        HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) held[k] = words[i + k * kThreads];
        HEADRACE_DEFLATE_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) to[i + k * kThreads] = held[k];
      }
      for (; i < count; i += kThreads) to[i] = words[i];
    } else {
      for (; i < count; i += kThreads) to[i] = input.word(from + i);
    }
    sync_warps<kWarps>();
    return {to, from * 32 - input.lead};
  }
};

// Reads a window's bits one behind the other, the next word at hand before it is wanted. REQUIRES: four words behind
// the last bit read are in the window.
class Bits {
 public:
  __device__ Bits(const BitSpan& window, std::uint32_t at) {
    const std::uint32_t bit = at - window.first;
    next_ = window.words + bit / 32;
    low_ = __funnelshift_r(next_[0], next_[1], bit % 32);
    high_ = next_[1] >> (bit % 32);
    ahead_ = next_[2];
    next_ += 3;
    have_ = 64 - bit % 32;
  }
  // Makes sure of 32 bits.
  __device__ void fill() {
    if (have_ >= 32) return;
    low_ |= ahead_ << have_;
    high_ = __funnelshift_l(ahead_, 0, have_);
    ahead_ = *next_++;
    have_ += 32;
  }
  __device__ std::uint32_t low() const { return low_; }
  // REQUIRES: less than 32.
  __device__ void skip(unsigned bits) {
    low_ = __funnelshift_r(low_, high_, bits);
    high_ >>= bits;
    have_ -= bits;
  }
  __device__ std::uint32_t take(unsigned bits) {
    const std::uint32_t out = low_ & ((1u << bits) - 1);
    skip(bits);
    return out;
  }

 private:
  const std::uint32_t* next_;
  std::uint32_t low_, high_, ahead_;
  unsigned have_;
};

// Where things lie in scratch, from the limits alone.
struct Layout {
  std::uint64_t segment_count = 0, block_count = 0, cell_count = 0, piece_count = 0;  // at most
  std::uint64_t totals = 0, round = 0, zeroed_bytes = 0, states = 0, starts = 0, run_list = 0, runs = 0, blocks = 0,
                cells = 0, pieces = 0, sums = 0, round_totals = 0, parts = 0, shares = 0, places = 0, tiles = 0,
                end = 0;
  lz77::RoundSizes rounds{0, 0, kMaxPieceUnits};
  lz77::TileLayout tile_layout;

  // `most_bytes`: fewer of them, for tests.
  Layout(const lz77::StreamLimits& limits, const Allowance& allowance, std::uint64_t most_bytes = ~std::uint64_t{0})
      : Layout(limits, allowance, most_bytes,
               lz77::TileLayout(limits.least_streams, limits.streams, limits.dst_bytes)) {}
  Layout(const lz77::StreamLimits& limits, const Allowance& allowance, std::uint64_t most_bytes,
         const lz77::TileLayout& output_tiles)
      : tile_layout(output_tiles) {
    segment_count = limits.src_bytes / kSegmentBytes + limits.streams;
    block_count = segment_count * (allowance.blocks_per_segment + std::uint64_t{1}) +
                  limits.dst_bytes / allowance.bytes_per_block;
    cell_count = segment_count * kSegmentBits / kCellBits + limits.streams + block_count + segment_count;
    // Two neighbouring pieces of a block have more than kMaxPieceBytes together.
    piece_count = block_count + limits.dst_bytes / (kMaxPieceBytes / 2);
    rounds = lz77::RoundSizes(limits.dst_bytes, piece_count, kMaxPieceUnits, most_bytes);
    const auto take = [this](std::uint64_t bytes) {
      const std::uint64_t at = end;
      end += (bytes + 255) / 256 * 256;
      return at;
    };
    totals = take(sizeof(Totals));
    round = take(rounds.count * sizeof(Round));
    zeroed_bytes = end;
    states = take(limits.streams * sizeof(StreamState));
    starts = take(segment_count * sizeof(std::uint32_t));
    run_list = take(segment_count * sizeof(std::uint32_t));
    runs = take(segment_count * sizeof(Run));
    blocks = take(block_count * sizeof(Block));
    cells = take(cell_count * sizeof(Cell));
    pieces = take(piece_count * sizeof(OutputRun));
    sums = take(piece_count * sizeof(Sums));
    round_totals = take(sizeof(lz77::RoundTotals));
    parts = take(rounds.parts_bytes(limits.streams));
    shares = take(rounds.shares_bytes(limits.streams));
    places = take(rounds.units * kUnitBytes);
    tiles = take(tile_layout.bytes());
  }
  void fill_in(Job& job, std::byte* scratch) const {
    job.rounds = rounds.rounds(scratch + round_totals, scratch + parts, scratch + shares);
    job.totals = reinterpret_cast<Totals*>(scratch + totals);
    job.round = reinterpret_cast<Round*>(scratch + round);
    job.states = reinterpret_cast<StreamState*>(scratch + states);
    job.starts = reinterpret_cast<std::uint32_t*>(scratch + starts);
    job.run_list = reinterpret_cast<std::uint32_t*>(scratch + run_list);
    job.runs = reinterpret_cast<Run*>(scratch + runs);
    job.blocks = reinterpret_cast<Block*>(scratch + blocks);
    job.cells = reinterpret_cast<Cell*>(scratch + cells);
    job.pieces = reinterpret_cast<OutputRun*>(scratch + pieces);
    job.sums = reinterpret_cast<Sums*>(scratch + sums);
    job.places = reinterpret_cast<Byte*>(scratch + places);
    job.tiles = tile_layout.job(scratch + tiles);
  }
};

}  // namespace headrace::codec::gpu::deflate

namespace headrace::codec::gpu {
inline std::uint64_t deflate_scratch_bytes(const lz77::StreamLimits& limits) noexcept {
  return deflate::Layout(limits, {}).end;
}
}  // namespace headrace::codec::gpu
