// The DEFLATE decoder's steps, in launch order, and what they share. Device code without a CUDA header.
//
// Once per batch:
//   begin      one thread per stream: the first header; a warp per stream if streams are searched, to skip stored
//   blocks share      all thread blocks: where each stream's segments begin find       one warp per part of a segment:
//   bits at which dynamic blocks may begin (deflate_find_device.cuh) trace      one or several warps per run: its
//   blocks, and where cells' words begin (deflate_trace_device.cuh) chain      one warp per stream: runs connected with
//   its beginning, gaps filled; one thread per stream if none was
//              searched, since each is one run then (deflate_chain_device.cuh)
//   scan       all thread blocks: where each stream's pieces begin
//   list       one warp per run: its pieces (deflate_pieces_device.cuh)
//   rounds     one thread block: sums of what pieces need, by shares of streams
//   place      one thread per piece: its region and round
// For each round:
//   decode     one or several warps per piece: literals and sequences, distances checked
//   and the output, in one of the three ways of codecs/lz77 (deflate_output_device.cuh)
// At the end (deflate_checksum_device.cuh):
//   sums       one warp per piece, or one thread block if pieces are few: its checksum, and the output of stored ones
//   join       one thread per piece: sums of members
//   verdict    one thread per member
//
// A run that begins where no block does decodes to nonsense, at most to the end of its block. This is harmless: `chain`
// starts at the stream's beginning and follows runs only where one ends exactly where the next begins. Where that
// fails, a warp continues decoding from the end of the last good block, until one of its blocks ends where a run
// begins. Hostile bytes can therefore at worst force a serial walk.
//
// If all blocks of a stream are stored, no match refers to its output. `sums` writes its pieces, since it reads them
// anyway, instead of codecs/lz77.
//
// After `decode`, only the member's checksum of a piece can be wrong. Every step skips bad chunks, so none reads what
// an earlier step did not write.
//
// kHostOnly has position 0, so it wins over every other finding in a stream.
#pragma once

#include "codecs/lz77/lz77_device.cuh"
#include "codecs/lz77/lz77_outcome_device.cuh"
#include "codecs/lz77/lz77_rounds_device.cuh"
#include "codecs/lz77/lz77_scan_device.cuh"
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

// Entries of the lists of segments, searched segments, blocks and cells that a stream gets.
struct StreamShares {
  std::uint32_t segments = 0, searched = 0, blocks = 0, cells = 0;

  __device__ StreamShares& operator+=(const StreamShares& more) {
    segments += more.segments;
    searched += more.searched;
    blocks += more.blocks;
    cells += more.cells;
    return *this;
  }
};

// What a stream adds to the lists of pieces and of units.
struct StreamOutput {
  std::uint64_t units = 0;
  std::uint32_t pieces = 0, unused = 0;

  __device__ StreamOutput& operator+=(const StreamOutput& more) {
    units += more.units;
    pieces += more.pieces;
    return *this;
  }
};

// Where a run begins: its segment among those of all streams, and its stream.
struct RunPlace {
  std::uint32_t segment, stream;
};

struct Job {
  DeflateStream* streams = nullptr;
  const std::uint32_t* count = nullptr;
  std::uint32_t max_streams = 0;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
  bool exact = true;
  Allowance allowance;
  lz77::Rounds rounds;
  std::uint32_t max_searched = 0;        // with more streams, each is traced from its beginning by one warp
  std::uint32_t min_searched_bytes = 0;  // shorter streams are traced likewise
  std::uint32_t max_pass_turns = ~0u;    // per stream: see pass_stored()
  lz77::TileJob tiles;
  // The following are in scratch.
  Totals* totals = nullptr;                             // zeroed before the launches
  Round* round = nullptr;                               // zeroed before the launches
  lz77::ScanTile<StreamShares>* share_scan = nullptr;   // zeroed before the launches
  lz77::ScanTile<StreamOutput>* output_scan = nullptr;  // zeroed before the launches
  StreamState* states = nullptr;
  std::uint32_t* starts = nullptr;  // by segment: the bit of its stream at which a run begins; kNone initially
  RunPlace* run_list = nullptr;     // of all runs
  Run* runs = nullptr;              // by segment
  Block* blocks = nullptr;
  Cell* cells = nullptr;
  OutputRun* pieces = nullptr;
  Sums* sums = nullptr;  // by piece
  Byte* places = nullptr;

  __device__ std::uint32_t stream_count() const { return *count < max_streams ? *count : max_streams; }
  __device__ bool any_searched() const { return stream_count() <= max_searched; }
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

// A sum that saturates at 2^31 - 1. REQUIRES: neither value is larger.
__device__ inline std::uint32_t sum_capped(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kMax = (1u << 31) - 1;
  return a + b < kMax ? a + b : kMax;
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
  // Bits outside the stream are 0.
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

// Barrier for all threads of a thread block of several warps, or of one warp.
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
  std::uint32_t first;  // bit of the stream (plus lead) at which the first word begins

  // By kWarps warps: loads `count` words, starting with the one that contains bit `at`.
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

// Reads a window's bits sequentially, with the next word prefetched. REQUIRES: the window has four words after the last
// bit that is read.
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
  // Ensures that 32 bits are available.
  __device__ void fill() {
    if (have_ >= 32) return;
    low_ |= ahead_ << have_;
    high_ = __funnelshift_l(ahead_, 0, have_);
    ahead_ = *next_++;
    have_ += 32;
  }
  __device__ std::uint32_t low() const { return low_; }
  // REQUIRES: bits < 32.
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

// Offsets of the arrays in scratch, derived from the limits alone.
struct Layout {
  std::uint64_t segment_count = 0, block_count = 0, cell_count = 0, piece_count = 0;  // upper bounds
  std::uint64_t totals = 0, round = 0, share_scan = 0, output_scan = 0, zeroed_bytes = 0, states = 0, starts = 0,
                run_list = 0, runs = 0, blocks = 0, cells = 0, pieces = 0, sums = 0, round_totals = 0, parts = 0,
                shares = 0, places = 0, tiles = 0, end = 0;
  lz77::RoundSizes rounds{0, 0, kMaxPieceUnits};
  lz77::TileLayout tile_layout;

  // `most_bytes`: limits the size, for tests.
  Layout(const lz77::StreamLimits& limits, const Allowance& allowance, std::uint64_t most_bytes = ~std::uint64_t{0})
      : Layout(limits, allowance, most_bytes, lz77::TileLayout(limits.min_streams, limits.streams, limits.dst_bytes)) {}
  Layout(const lz77::StreamLimits& limits, const Allowance& allowance, std::uint64_t most_bytes,
         const lz77::TileLayout& output_tiles)
      : tile_layout(output_tiles) {
    segment_count = limits.src_bytes / kSegmentBytes + limits.streams;
    block_count = segment_count * (allowance.blocks_per_segment + std::uint64_t{1}) +
                  limits.dst_bytes / allowance.bytes_per_block;
    cell_count = segment_count * kSegmentBits / kCellBits + limits.streams + block_count + segment_count;
    // Two adjacent pieces of a block are together larger than kMaxPieceBytes.
    piece_count = block_count + limits.dst_bytes / (kMaxPieceBytes / 2);
    rounds = lz77::RoundSizes(limits.dst_bytes, piece_count, kMaxPieceUnits, most_bytes);
    const auto take = [this](std::uint64_t bytes) {
      const std::uint64_t at = end;
      end += (bytes + 255) / 256 * 256;
      return at;
    };
    totals = take(sizeof(Totals));
    round = take(rounds.count * sizeof(Round));
    share_scan = take(lz77::scan_tiles(limits.streams) * sizeof(lz77::ScanTile<StreamShares>));
    output_scan = take(lz77::scan_tiles(limits.streams) * sizeof(lz77::ScanTile<StreamOutput>));
    zeroed_bytes = end;
    states = take(limits.streams * sizeof(StreamState));
    starts = take(segment_count * sizeof(std::uint32_t));
    run_list = take(segment_count * sizeof(RunPlace));
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
    job.share_scan = reinterpret_cast<lz77::ScanTile<StreamShares>*>(scratch + share_scan);
    job.output_scan = reinterpret_cast<lz77::ScanTile<StreamOutput>*>(scratch + output_scan);
    job.states = reinterpret_cast<StreamState*>(scratch + states);
    job.starts = reinterpret_cast<std::uint32_t*>(scratch + starts);
    job.run_list = reinterpret_cast<RunPlace*>(scratch + run_list);
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
