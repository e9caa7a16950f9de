// Steps of the zstd decoder that make sequences of what the walk noted: extract, settle, check. Device code without a
// CUDA header.
//
// Repeat offsets (RFC 8878, 3.1.1.5) hang on all sequences before. What a run of sequences does to the three of them is
// a map: each of the three afterwards is a number, or one of the three before, less something. Maps can be put one
// behind the other, so a block's threads each work out that of their sequences, and a scan over them says what holds
// at the beginning of each, in terms of the block's beginning (`extract`). A walk over blocks says what that is
// (`settle`), and `check` puts it in.
#pragma once

#include "zstd_frames_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kMostThreads = 512;  // of a thread block in these steps

// ---- repeat offsets ----

struct Repeats {
  std::uint32_t offset[3];
};

__device__ inline bool is_symbolic(std::uint32_t v) { return v >= kSymbolic; }
__device__ inline std::uint32_t symbolic(unsigned slot) { return kSymbolic + (slot << kLessBits); }
// An offset less k. A number stays at 0, which no sequence may have; it is refused where it came up first.
__device__ inline std::uint32_t less(std::uint32_t v, std::uint32_t k) {
  return is_symbolic(v) ? v + k : v < k ? 0 : v - k;
}
// What `v`, said in terms of `before`, is.
__device__ inline std::uint32_t resolve(std::uint32_t v, const Repeats& before) {
  if (!is_symbolic(v)) return v;
  const std::uint32_t slot = (v - kSymbolic) >> kLessBits, k = (v - kSymbolic) & ((1u << kLessBits) - 1);
  return less(slot == 0 ? before.offset[0] : slot == 1 ? before.offset[1] : before.offset[2], k);
}
__device__ inline Repeats unchanged() { return {{symbolic(0), symbolic(1), symbolic(2)}}; }
__device__ inline Repeats then(const Repeats& first, const Repeats& second) {
  return {{resolve(second.offset[0], first), resolve(second.offset[1], first), resolve(second.offset[2], first)}};
}

// One sequence's offset, by what its code stands for: 1 to 3 repeat, others are 3 more than the offset.
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

__device__ inline std::uint64_t pack_sequence(std::uint32_t literals, std::uint32_t match, std::uint32_t offset) {
  return literals | static_cast<std::uint64_t>(match - 3) << kLengthBits |
         static_cast<std::uint64_t>(offset) << (2 * kLengthBits);
}
__device__ inline std::uint32_t literals_of(std::uint64_t s) { return static_cast<std::uint32_t>(s) & kLengthMask; }
__device__ inline std::uint32_t match_of(std::uint64_t s) {
  return (static_cast<std::uint32_t>(s >> kLengthBits) & kLengthMask) + 3;
}
__device__ inline std::uint32_t offset_of(std::uint64_t s) {
  return static_cast<std::uint32_t>(s >> (2 * kLengthBits));
}

// A sequence with its offset's value, not yet the offset. Values that are too large for any output become one that is.
__device__ inline std::uint64_t read_sequence(const BackwardBits& bits, std::uint64_t slot) {
  const auto word = static_cast<std::uint32_t>(slot);
  auto at = static_cast<std::int32_t>(slot >> 32);
  const auto take = [&](unsigned count) {
    at -= static_cast<std::int32_t>(count);
    return count == 0 ? 0 : bits.bits(at) & ((1u << count) - 1);
  };
  const unsigned offset_code = word >> WalkWord::kOffset & 31, match_code = word >> WalkWord::kMatch & 63,
                 literal_code = word >> WalkWord::kLiteral & 63;
  std::uint32_t value = (1u << offset_code) + take(offset_code);
  if (value > kMostOffset) value = kMostOffset;
  const std::uint32_t match = match_base(match_code) + take(match_extra(match_code));
  const std::uint32_t literals = literal_base(literal_code) + take(literal_extra(literal_code));
  return pack_sequence(literals, match, value);
}

struct ExtractSpace {
  std::uint32_t literals[kMostThreads / 32], matches[kMostThreads / 32];
  Repeats repeats[kMostThreads];
  std::uint32_t ticket;
};

// The block's sequences with their offsets' values, checkpoints, and the sum of its matches in `matches`. Sums that are
// no block's stop growing.
__device__ inline void extract_lengths(const Job& job, const Block& block, const Byte* src, ExtractSpace& space,
                                       std::uint32_t& literals, std::uint32_t& matches) {
  constexpr std::uint32_t kTooMany = 1u << 28;
  const unsigned lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  std::uint64_t* const slots = job.slots_of(block);
  Checkpoint* const checkpoints = job.checkpoints_of(block);
  const BackwardBits bits(src + block.bits_at, block.bits_bytes);
  literals = matches = 0;
  for (std::uint32_t first = 0; first < block.sequences; first += blockDim.x) {
    const std::uint32_t i = first + threadIdx.x;
    std::uint32_t own_literals = 0, own_match = 0;
    if (i < block.sequences) {
      const std::uint64_t sequence = read_sequence(bits, slots[i]);
      slots[i] = sequence;
      own_literals = literals_of(sequence);
      own_match = match_of(sequence);
    }
    const std::uint32_t warp_literals = __reduce_add_sync(kAllLanes, own_literals);
    const std::uint32_t warp_matches = __reduce_add_sync(kAllLanes, own_match);
    if (lane == 0) {
      space.literals[warp] = warp_literals;
      space.matches[warp] = warp_matches;
    }
    __syncthreads();
    std::uint32_t literals_before = literals, matches_before = matches;
    for (unsigned k = 0; k < warps; ++k) {
      if (k == warp && lane == 0 && i < block.sequences) {
        checkpoints[i / kGroup] = {literals_before, matches_before};
      }
      literals_before += space.literals[k];
      matches_before += space.matches[k];
    }
    literals = literals_before < kTooMany ? literals_before : kTooMany;
    matches = matches_before < kTooMany ? matches_before : kTooMany;
    __syncthreads();
  }
}

// Offsets for their values, in terms of what is repeated at the block's beginning.
__device__ inline void extract_offsets(const Job& job, Block& block, ExtractSpace& space) {
  const unsigned t = threadIdx.x;
  std::uint64_t* const slots = job.slots_of(block);
  const std::uint32_t each = (block.sequences + blockDim.x - 1) / blockDim.x;
  const std::uint32_t first = t * each < block.sequences ? t * each : block.sequences;
  const std::uint32_t last = block.sequences - first < each ? block.sequences : first + each;
  Repeats own = unchanged();
  for (std::uint32_t i = first; i < last; ++i) next_offset(own, offset_of(slots[i]), literals_of(slots[i]) == 0);
  space.repeats[t] = own;
  __syncthreads();
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    const Repeats before = t >= step ? space.repeats[t - step] : unchanged();
    __syncthreads();
    if (t >= step) space.repeats[t] = then(before, space.repeats[t]);
    __syncthreads();
  }
  own = t == 0 ? unchanged() : space.repeats[t - 1];
  for (std::uint32_t i = first; i < last; ++i) {
    const std::uint64_t s = slots[i];
    const std::uint32_t offset = next_offset(own, offset_of(s), literals_of(s) == 0);
    slots[i] = pack_sequence(literals_of(s), match_of(s), offset);
  }
  if (t == blockDim.x - 1) {
    for (unsigned k = 0; k < 3; ++k) block.repeats_after[k] = space.repeats[t].offset[k];
  }
}

__device__ inline std::uint32_t block_max(const Block& block) {
  return block.window < kMaxBlockBytes ? block.window : kMaxBlockBytes;
}

__device__ inline void extract_body(const Job& job, std::uint32_t r, ExtractSpace& space) {
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
    std::uint32_t literals, matches;
    extract_lengths(job, block, stream.src, space, literals, matches);
    extract_offsets(job, block, space);
    if (threadIdx.x != 0) continue;
    block.match_bytes = matches;
    if (literals > block.literal_bytes) {
      give_up(job, stream.chunk, block.at, DecodeReason::kLength);
    } else if (matches + block.literal_bytes > block_max(block)) {
      // More than the format allows: older versions of libzstd take it if there is room.
      give_up(job, stream.chunk, block.at, DecodeReason::kHostOnly);
    }
  }
}

// ---- settle ----

// Where the stream's blocks of the round begin, and what is repeated there. All lanes go through all blocks; each
// fetches one of 32 and keeps what belongs to it.
__device__ inline void settle_stream(const Job& job, ZstdStream& stream, StreamState& state, std::uint32_t from,
                                     std::uint32_t to, unsigned lane) {
  std::uint32_t out = state.out, frame_out = state.frame_out;
  Repeats repeats = {{state.repeats[0], state.repeats[1], state.repeats[2]}};
  for (std::uint32_t base = from; base < to; base += 32) {
    const bool mine = base + lane < to;
    Block& block = job.blocks[mine ? base + lane : from];
    const bool compressed = block.kind == BlockKind::kCompressed;
    const bool has_sequences = compressed && block.sequences != 0;
    if (mine && compressed) block.decoded_bytes = block.literal_bytes + (has_sequences ? block.match_bytes : 0);
    const std::uint32_t bytes = block.decoded_bytes;
    const std::uint32_t flags = (block.first ? 1u : 0) | (block.last ? 2u : 0);
    Repeats after = unchanged();
    if (has_sequences) after = {{block.repeats_after[0], block.repeats_after[1], block.repeats_after[2]}};
    std::uint32_t own_out = 0, own_frame = 0;
    Repeats own_repeats{};
    bool too_long = false, wrong_size = false;
    const std::uint32_t here = to - base < 32 ? to - base : 32;
    for (std::uint32_t k = 0; k < here; ++k) {
      const std::uint32_t its_bytes = __shfl_sync(kAllLanes, bytes, k), its_flags = __shfl_sync(kAllLanes, flags, k);
      const std::uint32_t promised = __shfl_sync(kAllLanes, block.frame_bytes, k);
      const Repeats its_after = {{__shfl_sync(kAllLanes, after.offset[0], k),
                                  __shfl_sync(kAllLanes, after.offset[1], k),
                                  __shfl_sync(kAllLanes, after.offset[2], k)}};
      if ((its_flags & 1) != 0) {
        frame_out = out;
        repeats = {{1, 4, 8}};
      }
      if (k == lane) {
        own_out = out;
        own_frame = frame_out;
        own_repeats = repeats;
      }
      repeats = then(repeats, its_after);
      if (its_bytes > stream.dst_bytes - out) {
        if (k == lane) too_long = true;
      } else {
        out += its_bytes;
        if (k == lane && (its_flags & 2) != 0 && promised != kNone && out - frame_out != promised) wrong_size = true;
      }
    }
    if (mine) {
      block.out = own_out;
      block.frame_out = own_frame;
      for (unsigned k = 0; k < 3; ++k) block.repeats[k] = own_repeats.offset[k];
      if (too_long) give_up(job, stream.chunk, block.at, DecodeReason::kLength);
      if (wrong_size) give_up(job, stream.chunk, block.at, DecodeReason::kWrongSize);
    }
    __syncwarp();
  }
  if (lane != 0) return;
  state.out = out;
  state.frame_out = frame_out;
  for (unsigned k = 0; k < 3; ++k) state.repeats[k] = repeats.offset[k];
  if (to != state.first + state.count) return;
  if (job.exact && out != stream.dst_bytes) give_up(job, stream.chunk, stream.src_bytes, DecodeReason::kWrongSize);
  stream.dst_bytes = out;
}

// The part of a stream's blocks that is of the round; none where the stream's chunk is bad.
struct Part {
  std::uint32_t from, to;
};
__device__ inline Part part_of(const Job& job, std::uint32_t r, std::uint32_t i) {
  const StreamState& state = job.states[i];
  const std::uint32_t begin = job.round[r].first, end = job.round[r + 1].first, last = state.first + state.count;
  const Part part{state.first > begin ? state.first : begin, last < end ? last : end};
  if (state.count == 0 || part.from >= part.to || !fine_for_warp(job, job.streams[i].chunk)) return {0, 0};
  return part;
}

__device__ inline void settle_body(const Job& job, std::uint32_t r) {
  if (job.round[r].first == job.round[r + 1].first) return;
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
    for (std::uint32_t group = warp; group * kGroup < block.sequences; group += warps) {
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
      // 0 is taken for 1 by older versions of libzstd; and it remembers more than the window if that is at hand.
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
