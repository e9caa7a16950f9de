// Steps of the zstd decoder that turn the walk's results into sequences: extract, settle, check. Device code without a
// CUDA header.
//
// Repeat offsets (RFC 8878, 3.1.1.5) depend on all sequences before. The effect of a run of sequences on the three of
// them is a map: each of the three becomes either a number, or one of the previous three minus a constant. Maps
// compose. Each thread of a block computes the map of its sequences, and a scan over the maps gives the repeat offsets
// at the beginning of each run, relative to the block's beginning (`extract`). A walk over blocks resolves those
// (`settle`), and `check` substitutes them.
#pragma once

#include "zstd_frames_device.cuh"

namespace headrace::codec::gpu::zstd {

// ---- repeat offsets ----

inline constexpr std::uint32_t kLessMask = (1u << kLessBits) - 1;

struct Repeats {
  std::uint32_t offset[3];
};

__device__ inline bool is_symbolic(std::uint32_t v) { return v >= kSymbolic; }
__device__ inline bool is_symbolic(const Repeats& repeats) {
  return is_symbolic(repeats.offset[0]) || is_symbolic(repeats.offset[1]) || is_symbolic(repeats.offset[2]);
}
__device__ inline std::uint32_t symbolic(unsigned slot) { return kSymbolic + (slot << kLessBits); }
// An offset minus k. A number saturates at 0, which is invalid as an offset and refused where it is first used.
__device__ inline std::uint32_t less(std::uint32_t v, std::uint32_t k) {
  return is_symbolic(v) ? v + k : v < k ? 0 : v - k;
}
// Resolves `v`, which is relative to `before`.
__device__ inline std::uint32_t resolve(std::uint32_t v, const Repeats& before) {
  if (!is_symbolic(v)) return v;
  const std::uint32_t slot = (v - kSymbolic) >> kLessBits, k = (v - kSymbolic) & kLessMask;
  return less(slot == 0 ? before.offset[0] : slot == 1 ? before.offset[1] : before.offset[2], k);
}
__device__ inline Repeats unchanged() { return {{symbolic(0), symbolic(1), symbolic(2)}}; }
__device__ inline Repeats shuffled_up(const Repeats& repeats, unsigned step) {
  Repeats out{};
  for (unsigned k = 0; k < 3; ++k) out.offset[k] = __shfl_up_sync(kAllLanes, repeats.offset[k], step);
  return out;
}
__device__ inline Repeats then(const Repeats& first, const Repeats& second) {
  return {{resolve(second.offset[0], first), resolve(second.offset[1], first), resolve(second.offset[2], first)}};
}

// One sequence's offset, by the value of its code: 1 to 3 repeat, larger values are the offset plus 3.
__device__ inline std::uint32_t next_offset(Repeats& repeats, std::uint32_t value, bool no_literals) {
  std::uint32_t offset;
  const std::uint32_t which = value + (no_literals ? 1 : 0);
  if (value <= 3 && which == 1) return repeats.offset[0];
  if (value > 3) {
    offset = value - 3;
  } else if (which == 2) {
    offset = repeats.offset[1];
    repeats.offset[1] = repeats.offset[0];
    repeats.offset[0] = offset;
    return offset;
  } else {
    offset = which == 3 ? repeats.offset[2] : less(repeats.offset[0], 1);
  }
  repeats.offset[2] = repeats.offset[1];
  repeats.offset[1] = repeats.offset[0];
  repeats.offset[0] = offset;
  return offset;
}

// ---- extract ----

using lz77::literals_of, lz77::match_of, lz77::offset_of, lz77::pack_sequence;

// A sequence with its offset value, not yet the offset. Values too large for any output are clamped to one that is also
// too large. `left`: the bits below the position in the slot; up to 63 may be consumed.
__device__ inline std::uint64_t read_sequence(std::uint64_t slot, std::uint64_t left) {
  const auto word = static_cast<std::uint32_t>(slot);
  const auto take = [&left](unsigned count) {
    const std::uint32_t taken = __funnelshift_l(static_cast<std::uint32_t>(left >> 32), 0, count);
    left <<= count;
    return taken;
  };
  const unsigned offset_code = word >> WalkWord::kOffset & 31, match_code = word >> WalkWord::kMatch & 63,
                 literal_code = word >> WalkWord::kLiteral & 63;
  std::uint32_t value = (1u << offset_code) + take(offset_code);
  if (value > kMaxOffset) value = kMaxOffset;
  const std::uint32_t match = match_base(match_code) + take(match_extra(match_code));
  const std::uint32_t literals = literal_base(literal_code) + take(literal_extra(literal_code));
  return pack_sequence(literals, match, value);
}

// Sequences per thread that a thread block processes at a time.
inline constexpr unsigned kRun = 8;

// The effect of a run of sequences: on the repeat offsets, and literals consumed and match bytes produced. Sums
// saturate above the size of any block.
struct Run {
  Repeats repeats;
  std::uint32_t literals, matches;
};
inline constexpr std::uint32_t kTooMany = 1u << 28;
__device__ inline std::uint32_t capped(std::uint32_t sum) { return sum < kTooMany ? sum : kTooMany; }
__device__ inline Run then(const Run& first, const Run& second) {
  return {then(first.repeats, second.repeats), capped(first.literals + second.literals),
          capped(first.matches + second.matches)};
}
__device__ inline Run nothing() { return {unchanged(), 0, 0}; }
__device__ inline Run shuffled_up(const Run& run, unsigned step) {
  Run out{shuffled_up(run.repeats, step), 0, 0};
  out.literals = __shfl_up_sync(kAllLanes, run.literals, step);
  out.matches = __shfl_up_sync(kAllLanes, run.matches, step);
  return out;
}

// What a block's numeric offsets need before the block; and how many of its first groups of sequences contain symbolic
// ones.
struct OffsetBounds {
  static constexpr std::uint32_t kNever = ~std::uint32_t{0};
  std::uint32_t most = 0;    // kNever if one is 0
  std::uint32_t beyond = 0;  // maximum reach before the block, in bytes
  std::uint32_t symbolic = 0;

  // `decoded`: bytes of the block before the match of sequence i.
  __device__ void add(std::uint32_t offset, std::uint32_t decoded, std::uint32_t i) {
    if (is_symbolic(offset)) {
      symbolic = i / kGroup + 1;
      return;
    }
    const std::uint32_t wanted = offset == 0 ? kNever : offset, back = offset < decoded ? 0 : offset - decoded;
    if (most < wanted) most = wanted;
    if (beyond < back) beyond = back;
  }
};

template <unsigned kThreads>
struct ExtractSpace {
  // The runs of all threads, padded by one word each to avoid bank conflicts.
  std::uint64_t sequences[kThreads * (kRun + 1)];
  Run warps[kThreads / 32];
  Run before;  // covers the block up to the current part
  OffsetBounds bounds;
  std::uint32_t ticket;
};

// The combined effect before a warp's sequences: that of everything before the part, then that of its earlier warps,
// one per lane.
template <unsigned kThreads>
__device__ inline Run before_warp(const ExtractSpace<kThreads>& space, unsigned warp, unsigned lane) {
  constexpr unsigned kWarps = kThreads / 32;
  if (kWarps <= 4) {
    Run before = space.before;
    for (unsigned k = 0; k < warp; ++k) before = then(before, space.warps[k]);
    return before;
  }
  Run run = lane < warp ? space.warps[lane] : nothing();
  for (unsigned step = 1; step < kWarps; step *= 2) {
    const Run earlier = shuffled_up(run, step);
    if (lane >= step) run = then(earlier, run);
  }
  Run all{};
  constexpr unsigned kLast = kWarps - 1;
  for (unsigned k = 0; k < 3; ++k) all.repeats.offset[k] = __shfl_sync(kAllLanes, run.repeats.offset[k], kLast);
  all.literals = __shfl_sync(kAllLanes, run.literals, kLast);
  all.matches = __shfl_sync(kAllLanes, run.matches, kLast);
  return then(space.before, all);
}

// Processes kThreads * kRun of the block's sequences, from `first` on: reads them, with offsets relative to the repeat
// offsets at the block's beginning; writes checkpoints; updates this thread's `bounds`. Advances space.before.
template <unsigned kThreads>
__device__ inline void extract_part(const Job& job, const Block& block, const BackwardBits& bits, std::uint32_t first,
                                    ExtractSpace<kThreads>& space, OffsetBounds& bounds) {
  const unsigned t = threadIdx.x, lane = lane_id(), warp = t / 32;
  std::uint64_t* const slots = job.slots_of(block) + first;
  const std::uint32_t left = block.sequences - first;
  const std::uint32_t count = left < kThreads * kRun ? left : kThreads * kRun;
  const auto place = [](std::uint32_t i) { return i / kRun * (kRun + 1) + i % kRun; };
  // Issues all loads before waiting for the first. Small thread blocks have registers for only half of them.
  constexpr unsigned kAtOnce = kThreads <= 64 ? kRun / 2 : kRun;
  HEADRACE_ZSTD_UNROLL for (unsigned from = 0; from < kRun; from += kAtOnce) {
    const auto number = [&](unsigned k) { return (from + k) * kThreads + t; };
    std::uint64_t loaded[kAtOnce];
    BackwardBits::Words words[kAtOnce];
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) loaded[k] = number(k) < count ? slots[number(k)] : 0;
    const auto end_of = [&](unsigned k) { return static_cast<std::int32_t>(loaded[k] >> 32); };
    bool whole = true;
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) {
      whole &= number(k) >= count || bits.is_whole_below(end_of(k));
    }
    if (whole) {
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) {
        words[k] = number(k) < count ? bits.whole_below(end_of(k)) : BackwardBits::Words{};
      }
    } else {
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) words[k] = bits.words_below(end_of(k));
    }
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kAtOnce; ++k) {
      if (number(k) < count) {
        space.sequences[place(number(k))] = read_sequence(loaded[k], BackwardBits::bits_below(end_of(k), words[k]));
      }
    }
  }
  __syncthreads();
  std::uint64_t* const own = space.sequences + t * (kRun + 1);
  const std::uint32_t mine = count <= t * kRun ? 0 : count - t * kRun < kRun ? count - t * kRun : kRun;
  Run run = nothing();
  for (std::uint32_t k = 0; k < mine; ++k) {
    next_offset(run.repeats, offset_of(own[k]), literals_of(own[k]) == 0);
    run.literals += literals_of(own[k]);
    run.matches += match_of(own[k]);
  }
  for (unsigned step = 1; step < 32; step *= 2) {
    // A map that consists of three numbers does not depend on what was before; soon all maps are of that kind.
    if (__any_sync(kAllLanes, is_symbolic(run.repeats))) {
      const Repeats earlier = shuffled_up(run.repeats, step);
      if (lane >= step) run.repeats = then(earlier, run.repeats);
    }
    const std::uint32_t literals = __shfl_up_sync(kAllLanes, run.literals, step),
                        matches = __shfl_up_sync(kAllLanes, run.matches, step);
    if (lane >= step) {
      run.literals = capped(run.literals + literals);
      run.matches = capped(run.matches + matches);
    }
  }
  if (lane == 31) space.warps[warp] = run;
  __syncthreads();
  const Run before = before_warp(space, warp, lane);
  const Run upto = then(before, run);
  run = shuffled_up(upto, 1);
  if (lane == 0) run = before;
  if (t % (kGroup / kRun) == 0 && mine != 0) {
    job.checkpoints_of(block)[(first + t * kRun) / kGroup] = {run.literals, run.matches};
  }
  std::uint32_t decoded = run.literals + run.matches;
  for (std::uint32_t k = 0; k < mine; ++k) {
    const std::uint64_t s = own[k];
    const std::uint32_t offset = next_offset(run.repeats, offset_of(s), literals_of(s) == 0);
    decoded += literals_of(s);
    bounds.add(offset, decoded, first + t * kRun + k);
    decoded += match_of(s);
    own[k] = pack_sequence(literals_of(s), match_of(s), offset);
  }
  __syncthreads();
  if (t == kThreads - 1) space.before = upto;
  HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kRun; ++k) {
    const std::uint32_t i = k * kThreads + t;
    if (i < count) slots[i] = space.sequences[place(i)];
  }
  __syncthreads();
}

__device__ inline std::uint32_t block_max(const Block& block) {
  return block.window < kMaxBlockBytes ? block.window : kMaxBlockBytes;
}

template <unsigned kThreads>
__device__ inline void extract_body(const Job& job, std::uint32_t r, ExtractSpace<kThreads>& space) {
  Round& round = job.round[r];
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&round.extract_ticket, 1u);
    __syncthreads();
    const std::uint32_t x = walk_of(job, round, space.ticket);
    if (x == kNone) return;
    Block& block = job.blocks[x];
    const ZstdStream& stream = job.streams[block.stream];
    if (!fine_for_block(job, stream.chunk)) continue;
    if (threadIdx.x == 0) {
      space.before = nothing();
      space.bounds = {};
    }
    const BackwardBits bits(stream.src + block.bits_at, block.bits_bytes);
    OffsetBounds bounds;
    for (std::uint32_t first = 0; first < block.sequences; first += kThreads * kRun) {
      extract_part(job, block, bits, first, space, bounds);
    }
    bounds = {__reduce_max_sync(kAllLanes, bounds.most), __reduce_max_sync(kAllLanes, bounds.beyond),
              __reduce_max_sync(kAllLanes, bounds.symbolic)};
    if (lane_id() == 0) {
      atomicMax(&space.bounds.most, bounds.most);
      atomicMax(&space.bounds.beyond, bounds.beyond);
      atomicMax(&space.bounds.symbolic, bounds.symbolic);
    }
    __syncthreads();
    if (threadIdx.x != 0) continue;
    block.max_offset = space.bounds.most;
    block.max_beyond = space.bounds.beyond;
    block.symbolic_groups = space.bounds.symbolic;
    const std::uint32_t literals = space.before.literals, matches = space.before.matches;
    for (unsigned k = 0; k < 3; ++k) block.repeats_after[k] = space.before.repeats.offset[k];
    block.match_bytes = matches;
    job.checkpoints_of(block)[lz77::groups_of(block.sequences)] = {literals, matches};
    if (literals > block.literal_bytes) {
      give_up(job, stream.chunk, block.at, DecodeReason::kLength);
    } else if (matches + block.literal_bytes > block_max(block)) {
      // Exceeds the format's maximum: older versions of libzstd accept it if there is room.
      give_up(job, stream.chunk, block.at, DecodeReason::kHostOnly);
    }
  }
}

// ---- settle ----

// By a warp, 32 blocks at a time: computes where the stream's blocks of the round begin, and the repeat offsets there.
__device__ inline void settle_stream(const Job& job, ZstdStream& stream, StreamState& state, std::uint32_t from,
                                     std::uint32_t to, unsigned lane) {
  std::uint32_t out = state.out, frame_out = state.frame_out;
  Repeats repeats = {{state.repeats[0], state.repeats[1], state.repeats[2]}};
  bool bad = false;
  // Prefetch: loads the next 32 blocks before these are processed.
  const auto number = [&](std::uint32_t base) { return base + lane < to ? base + lane : from; };
  Block ahead = job.blocks[number(from)];
  for (std::uint32_t base = from; base < to && !bad; base += 32) {
    const bool mine = base + lane < to;
    Block& written = job.blocks[number(base)];
    const Block block = ahead;
    ahead = job.blocks[number(base + 32)];
    const bool compressed = block.kind == BlockKind::kCompressed;
    const bool has_sequences = compressed && block.sequences != 0;
    std::uint32_t bytes = mine ? block.decoded_bytes : 0;  // at most 2^21
    if (mine && compressed) {
      bytes = block.literal_bytes + (has_sequences ? block.match_bytes : 0);
      written.decoded_bytes = bytes;
    }
    Repeats upto = unchanged();
    if (mine && has_sequences) upto = {{block.repeats_after[0], block.repeats_after[1], block.repeats_after[2]}};
    const bool first = mine && block.first;
    if (first) upto = then({{1, 4, 8}}, upto);
    // Composed maps may need a larger k than fits; then they are composed one after the other.
    std::uint32_t max_less = 0;
    for (unsigned k = 0; k < 3; ++k) {
      const std::uint32_t less_by = is_symbolic(upto.offset[k]) ? (upto.offset[k] - kSymbolic) & kLessMask : 0;
      max_less = max_less < less_by ? less_by : max_less;
    }
    if (__reduce_add_sync(kAllLanes, max_less) <= kLessMask) {
      for (unsigned step = 1; step < 32; step *= 2) {
        const Repeats earlier = shuffled_up(upto, step);
        if (lane >= step) upto = then(earlier, upto);
      }
      upto = then(repeats, upto);
    } else {
      Repeats before = repeats, own{};
      for (unsigned k = 0; k < 32; ++k) {
        Repeats its{};
        for (unsigned i = 0; i < 3; ++i) its.offset[i] = __shfl_sync(kAllLanes, upto.offset[i], k);
        before = then(before, its);
        if (k == lane) own = before;
      }
      upto = own;
    }
    const std::uint32_t bytes_upto = sum_upto(bytes, lane);
    const unsigned firsts = __ballot_sync(kAllLanes, first) & (lanes_below(lane) | 1u << lane);
    const std::uint32_t own_out = out + bytes_upto - bytes;
    const std::uint32_t first_out = __shfl_sync(kAllLanes, own_out, firsts == 0 ? 0 : top_bit(firsts));
    const std::uint32_t own_frame = firsts == 0 ? frame_out : first_out;
    Repeats own_repeats = shuffled_up(upto, 1);
    if (lane == 0) own_repeats = repeats;
    if (first) own_repeats = {{1, 4, 8}};
    const bool too_long = bytes_upto > stream.dst_bytes - out;
    if (mine) {
      written.out = own_out;
      written.frame_out = own_frame;
      for (unsigned k = 0; k < 3; ++k) written.repeats[k] = own_repeats.offset[k];
      const bool wrong_size =
          block.last && block.frame_bytes != kNone && own_out + bytes - own_frame != block.frame_bytes;
      if (too_long) {
        give_up(job, stream.chunk, block.at, DecodeReason::kLength);
      } else if (wrong_size) {
        give_up(job, stream.chunk, block.at, DecodeReason::kWrongSize);
      }
    }
    bad = __any_sync(kAllLanes, too_long);
    out += __shfl_sync(kAllLanes, bytes_upto, 31);
    frame_out = __shfl_sync(kAllLanes, own_frame, 31);
    for (unsigned k = 0; k < 3; ++k) repeats.offset[k] = __shfl_sync(kAllLanes, upto.offset[k], 31);
  }
  if (lane != 0 || bad) return;
  state.out = out;
  state.frame_out = frame_out;
  for (unsigned k = 0; k < 3; ++k) state.repeats[k] = repeats.offset[k];
  if (to != state.first + state.count) return;
  if (stream.enough != 0) {
    // Not all blocks were decoded. The CPU checks whether their sizes are wrong.
    if (out < stream.enough) give_up(job, stream.chunk, stream.src_bytes, DecodeReason::kHostOnly);
    return;
  }
  if (job.exact && out != stream.dst_bytes) give_up(job, stream.chunk, stream.src_bytes, DecodeReason::kWrongSize);
  stream.dst_bytes = out;
}

// The range of a stream's blocks in this round; empty if the stream's chunk is bad.
using lz77::Part;
__device__ inline Part part_of(const Job& job, std::uint32_t r, std::uint32_t i) {
  const StreamState& state = job.states[i];
  if (state.count == 0) return {0, 0};
  const Part part = lz77::part_of_round(job.rounds, i, r);
  if (part.from == part.to || !fine_for_warp(job, job.streams[i].chunk)) return {0, 0};
  return part;
}

__device__ inline void settle_body(const Job& job, std::uint32_t r) {
  if (job.round[r].blocks == 0) return;
  const std::uint32_t count = job.stream_count();
  const unsigned lane = lane_id(), warps = blockDim.x / 32;
  for (std::uint32_t i = blockIdx.x * warps + threadIdx.x / 32; i < count; i += gridDim.x * warps) {
    const Part part = part_of(job, r, i);
    if (part.from != part.to) settle_stream(job, job.streams[i], job.states[i], part.from, part.to, lane);
    __syncwarp();
  }
}

// ---- check ----

__device__ inline void check_body(const Job& job, std::uint32_t r, std::uint32_t& shared_ticket) {
  Round& round = job.round[r];
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) shared_ticket = atomicAdd(&round.check_ticket, 1u);
    __syncthreads();
    const std::uint32_t x = walk_of(job, round, shared_ticket);
    if (x == kNone) return;
    const Block& block = job.blocks[x];
    const ZstdStream& stream = job.streams[block.stream];
    if (!fine_for_block(job, stream.chunk)) continue;
    std::uint64_t* const slots = job.slots_of(block);
    const Checkpoint* const checkpoints = job.checkpoints_of(block);
    const Repeats before = {{block.repeats[0], block.repeats[1], block.repeats[2]}};
    bool beyond = false, disputed = false;
    // Numeric offsets are mostly known to be valid already.
    const bool numbers_hold = block.max_offset <= block.window && block.max_beyond <= block.out - block.frame_out;
    const std::uint32_t groups = numbers_hold ? block.symbolic_groups : lz77::groups_of(block.sequences);
    for (std::uint32_t group = warp; group < groups; group += warps) {
      const std::uint32_t i = group * kGroup + lane;
      const bool mine = i < block.sequences;
      const std::uint64_t s = mine ? slots[i] : 0;
      const std::uint32_t literals = mine ? literals_of(s) : 0, match = mine ? match_of(s) : 0;
      const std::uint32_t upto = sum_upto(literals + match, lane);
      const Checkpoint checkpoint = checkpoints[group];
      const std::uint32_t decoded =
          block.out - block.frame_out + checkpoint.literals + checkpoint.matches + upto - match;
      if (!mine) continue;
      const std::uint32_t offset = resolve(offset_of(s), before);
      if (offset != offset_of(s)) slots[i] = pack_sequence(literals, match, offset);
      // Older versions of libzstd take 0 for 1, and accept offsets beyond the window if the bytes are still at hand.
      if (offset > decoded) {
        beyond = true;
      } else if (offset == 0 || offset > block.window) {
        disputed = true;
      }
    }
    if (disputed) give_up(job, stream.chunk, block.at, DecodeReason::kHostOnly);
    if (beyond) give_up(job, stream.chunk, block.at, DecodeReason::kOffset);
  }
}

}  // namespace headrace::codec::gpu::zstd
