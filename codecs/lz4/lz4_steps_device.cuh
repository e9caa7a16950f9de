// LZ4 streams decoded by steps, one warp per stream: for batches of few streams, where the latency of a stream counts.
//
// A step takes the next 32 bytes of input. Every lane parses its own byte as if a token began there; pointer doubling
// over the links to the next token finds the true ones, and a prefix sum over the lanes gives each one's output
// position. Then every byte of the step's output is looked up independently: which token it belongs to, and from there
// the literal or the earlier output that it copies, through other tokens of the step if necessary. So no copy waits for
// another of the same step.
#pragma once

#include "lz4_walk_device.cuh"

namespace headrace::codec::gpu::inorder {

// Longer matches, and longer literals that leave the step's input, end the step and are copied separately.
inline constexpr std::uint32_t kStepMatch = 64, kStepLiterals = 64;
// A token has at least 3 bytes, except that the match half of a token whose literals are done has 2.
inline constexpr unsigned kStepTokens = 11;
inline constexpr unsigned kStepBytes = kStepTokens * kStepMatch + 32 + kStepLiterals;

struct StepToken {
  std::uint32_t span;    // output: where its literals begin (low half) and end, relative to the step's first byte
  std::uint32_t source;  // its offset (low half); signed distance from its literals' output to their input (high half)
};

// Shared memory of one stream.
struct StepSpace {
  std::uint32_t ring[Shape<32>::kRingBytes / 4];
  StepToken tokens[16];
  Byte owner[(kStepBytes + 31) / 32 * 32];  // token of each byte of output
  Byte zero;                                // what a match at offset 0 repeats
};

// Follows one link from a byte of the step's output: returns a literal or earlier output, or null and another place in
// the step.
__device__ __forceinline__ const Byte* step_source(const StepSpace& space, const Byte* in, const Byte* out,
                                                   std::uint32_t& place, unsigned owner) {
  const StepToken token = space.tokens[owner];
  const std::uint32_t match = token.span >> 16;
  if (place < match) return in + static_cast<std::int32_t>(place) + (static_cast<std::int32_t>(token.source) >> 16);
  const std::uint32_t offset = token.source & 0xFFFF;
  if (offset == 0) return &space.zero;
  const std::uint32_t back = repeated(place - match, offset) + match;
  if (back < offset) return out - (offset - back);
  place = back - offset;
  return nullptr;
}

// Returns false if the next token is not suitable for a step: it has more length bytes, is invalid, or is close to an
// end.
__device__ inline bool take_step(Walk& walk, StepSpace& space, unsigned lane) {
  constexpr unsigned kRingWords = Shape<32>::kRingBytes / 4;
  if (walk.in.end - walk.at < Shape<32>::kLookahead) return false;
  const std::uint32_t position = walk.at + lane;
  const std::uint32_t bytes = __funnelshift_r(space.ring[position / 4 % kRingWords],
                                              space.ring[(position / 4 + 1) % kRingWords], 8 * (position & 3));
  // Lane 0 may hold the match half of a token whose literals are already done.
  const bool half = lane == 0 && walk.pending != kNoToken;
  const std::uint32_t token = half ? walk.pending & 15 : bytes & 255;
  std::uint32_t literals = token >> 4, first = half ? 0 : lane + 1, match = (token & 15) + 4;
  const bool short_literals = literals != 15;
  bool fits = true;
  if (!short_literals) {
    literals += bytes >> 8 & 255;
    first += 1;
    fits = literals != 15 + 255;
  }
  std::uint32_t next = first + literals;
  const std::uint32_t tail = __shfl_sync(kAllLanes, bytes, next & 31);
  const bool whole = next < 32;  // its offset is in this step
  const std::uint32_t offset = tail & 0xFFFF;
  bool alone = false;  // a long match, copied separately
  if (whole) {
    next += 2;
    if (match == 19) {
      match += tail >> 16 & 255;
      next += 1;
      fits &= match != 19 + 255;
    }
    alone = match > kStepMatch;
  } else {
    fits &= literals <= kStepLiterals;
  }

  std::uint32_t reached = 1u << lane, hop = !fits || alone ? 32 : next;
  for (unsigned r = 0; r < 4; ++r) {
    const std::uint32_t further = __shfl_sync(kAllLanes, reached, hop & 31);
    const std::uint32_t landed = __shfl_sync(kAllLanes, hop, hop & 31);
    if (hop < 32) {
      reached |= further;
      hop = landed;
    }
  }
  const unsigned taken = __shfl_sync(kAllLanes, reached, 0) & __ballot_sync(kAllLanes, fits);
  if (taken == 0) return false;
  const bool mine = (taken >> lane & 1) != 0;
  const std::uint32_t produced = mine ? literals + (whole && !alone ? match : 0) : 0;
  std::uint32_t sum = produced;
  for (unsigned d = 1; d < 32; d *= 2) {
    const std::uint32_t before = __shfl_up_sync(kAllLanes, sum, d);
    if (lane >= d) sum += before;
  }
  const std::uint32_t begin = sum - produced, match_at = begin + literals;
  const std::uint32_t written = walk.done + match_at;
  bool refused = written + (whole ? match : 0) + kLastOutput > walk.end;
  refused |= whole ? offset > written : walk.in.end - walk.at < next + 8;
  if (__any_sync(kAllLanes, mine && refused)) return false;

  // Only the last token can be incomplete.
  const bool roomy = short_literals && walk.end - walk.done - begin >= 32 && walk.in.end - walk.at - first > 16;
  const std::uint32_t left = whole ? kNoToken : (token & 15) | kFarFromEnd | (roomy ? kShortToken : 0);
  const unsigned last = 31 - static_cast<unsigned>(__clz(taken));
  const std::uint32_t packed = __shfl_sync(kAllLanes, next | left << 16 | (alone ? 1u << 31 : 0), last);
  const std::uint32_t total = __shfl_sync(kAllLanes, sum, 31);
  const bool listed = mine && produced != 0;
  const unsigned all_listed = __ballot_sync(kAllLanes, listed);
  if (listed) {
    StepToken& own = space.tokens[__popc(all_listed & ((1u << lane) - 1))];
    own.span = begin | match_at << 16;
    own.source = offset | (first - begin) << 16;
  }
  __syncwarp();

  const Byte* const in = walk.in.base + walk.at;
  Byte* const out = walk.dst + walk.done;
  unsigned before = 0;  // tokens that begin in earlier rounds
  HEADRACE_UNROLL(1)
  for (std::uint32_t round = 0; round < total; round += 32) {
    const unsigned starts = __reduce_or_sync(kAllLanes, listed && begin / 32 == round / 32 ? 1u << (begin & 31) : 0);
    const unsigned owner = before + static_cast<unsigned>(__popc(starts & ((2u << lane) - 1))) - 1;
    before += static_cast<unsigned>(__popc(starts));
    std::uint32_t place = round + lane;
    space.owner[place] = static_cast<Byte>(owner);
    const bool wanted = place < total;
    const Byte* from = nullptr;
    if (wanted) from = step_source(space, in, out, place, owner);
    bool open = wanted && from == nullptr;
    __syncwarp();
    // Every link leads to an earlier token.
    while (__any_sync(kAllLanes, open)) {
      if (open) {
        from = step_source(space, in, out, place, space.owner[place]);
        open = from == nullptr;
      }
    }
    if (wanted) out[round + lane] = *from;
  }
  walk.done += total;
  walk.at += packed & 0xFFFF;
  walk.pending = packed >> 16 & 0xFF;
  if (packed >> 31 != 0) {
    walk.copy_bytes = __shfl_sync(kAllLanes, match, last);
    walk.copy_offset = __shfl_sync(kAllLanes, offset, last);
    walk.done += walk.copy_bytes;
  }
  return true;
}

// Decodes one stream by a whole warp.
__device__ inline void decode_by_steps(const Lz4Stream& stream, StepSpace& space, std::uint64_t* outcomes,
                                       unsigned stage) {
  using device::DecodeReason;
  using S = Shape<32>;
  const unsigned lane = lane_id();
  if (stream.kind == Lz4Kind::kNone) return;
  const std::uint32_t chunk = stream.chunk;
  if (*static_cast<const volatile std::uint64_t*>(&outcomes[chunk]) != device::DecodeOutcome::kOk) return;
  if (lane == 0) space.zero = 0;
  __syncwarp();  // all lanes have read the outcome before one of them may lower it
  Walk walk{};
  walk.pending = kEnded;
  DecodeReason reason = begin(stream, S::kUnitBytes, walk);
  // A stored stream is a single copy.
  if (walk.copy_bytes != 0) copy_by_warp(walk.copy_to(), walk.copy_from(), walk.copy_bytes, kPlain, lane);
  walk.copy_bytes = 0;
  const bool started = walk.live();
  std::uint32_t filled = walk.live() ? walk.at & ~(S::kUnitBytes - 1) : 0;
  std::uint32_t ahead = walk.live() ? load_unit<1>(walk.in, filled + 4 * lane).w[0] : 0;
  while (walk.live()) {
    while (filled < walk.at + S::kLookahead && filled < walk.in.end) {
      space.ring[(filled / 4 + lane) % (S::kRingBytes / 4)] = ahead;
      filled += S::kUnitBytes;
      ahead = load_unit<1>(walk.in, filled + 4 * lane).w[0];
    }
    __syncwarp();
    if (!take_step(walk, space, lane)) {
      reason = slow_step(walk);
      if (reason != DecodeReason::kNone) break;
    }
    if (walk.at >= filled + S::kUnitBytes) {
      filled = walk.at & ~(S::kUnitBytes - 1);
      ahead = load_unit<1>(walk.in, filled + 4 * lane).w[0];
    }
    __syncwarp();
    if (walk.copy_bytes != 0) {
      copy_by_warp(walk.copy_to(), walk.copy_from(), walk.copy_bytes, walk.copy_offset, lane);
      walk.copy_bytes = 0;
      __syncwarp();
    }
  }
  if (reason != DecodeReason::kNone && lane == 0) {
    lz4_give_up(outcomes, chunk, stage, started ? walk.at - walk.in.begin : 0, reason);
  }
}

}  // namespace headrace::codec::gpu::inorder
