// LZ4 streams decoded in order: device code without a CUDA header, run on the CPU by tests.
//
// With 32 lanes per stream, it decodes by steps: lz4_steps_device.cuh. With fewer, a group of lanes walks one stream,
// token by token; the groups of a warp run in lockstep. All lanes of a group parse the same token from a ring of input
// bytes in shared memory, which is filled one unit ahead, and copy short literals and matches, one byte per lane.
// Longer copies are done by the whole warp, one after the other. docs/design/gpu_lz4.md gives the
// reasons.
#pragma once

#include "lz4_steps_device.cuh"
#include "lz4_walk_device.cuh"

namespace headrace::codec::gpu {
namespace inorder {

// Executes the long copies of all groups, one after the other. `wanted` has one bit for each group that has one.
__device__ __forceinline__ void run_copies(Walk& walk, unsigned wanted, unsigned lane) {
  while (wanted != 0) {
    const unsigned owner = static_cast<unsigned>(__ffs(wanted)) - 1;
    wanted &= wanted - 1;
    const Byte* const from = pointer_from_lane(walk.copy_from(), owner);
    auto* const to = const_cast<Byte*>(pointer_from_lane(walk.copy_to(), owner));
    const std::uint32_t bytes = __shfl_sync(kAllLanes, walk.copy_bytes, owner);
    copy_by_warp(to, from, bytes, __shfl_sync(kAllLanes, walk.copy_offset, owner), lane);
  }
  walk.copy_bytes = 0;
}

// Adds units to a group's ring until the lookahead is complete, and prefetches the next unit. A unit overwrites the one
// a ring's length before it, which has been consumed: less than the lookahead remains after `at`.
template <unsigned kLanes>
__device__ __forceinline__ void fill(const Input& in, std::uint32_t at, Byte* ring, unsigned group_lane,
                                     std::uint32_t& filled, Words<Shape<kLanes>::kLaneWords>& ahead) {
  using S = Shape<kLanes>;
  const unsigned unit_at = group_lane * 4 * S::kLaneWords;
  HEADRACE_UNROLL(1)
  while (filled < at + S::kLookahead && filled < in.end) {
    auto* const slot = reinterpret_cast<std::uint32_t*>(ring + ((filled + unit_at) & (S::kRingBytes - 1)));
    for (unsigned k = 0; k < S::kLaneWords; ++k) slot[k] = ahead.w[k];
    if ((filled & (S::kRingBytes - 1)) == 0) {
      for (unsigned k = 0; k < S::kLaneWords; ++k) slot[k + S::kRingBytes / 4] = ahead.w[k];
    }
    filled += S::kUnitBytes;
    ahead = load_unit<S::kLaneWords>(in, filled + unit_at);
  }
}

// A match's bytes are held in registers while the next token is parsed; this stores them, before `to`.
template <unsigned kLanes>
__device__ __forceinline__ void store_held(Byte* to, unsigned group_lane, std::uint32_t& held_bytes,
                                           const Byte (&held)[32 / kLanes]) {
  Byte* const held_to = to - held_bytes + group_lane;
  for (unsigned k = 0; k < 32 / kLanes; ++k) {
    if (k * kLanes + group_lane < held_bytes) held_to[k * kLanes] = held[k];
  }
  held_bytes = 0;
}
template <unsigned kLanes>
__device__ __forceinline__ void load_held(const Byte* from, std::uint32_t bytes, unsigned group_lane,
                                          std::uint32_t& held_bytes, Byte (&held)[32 / kLanes]) {
  held_bytes = bytes;
  for (unsigned k = 0; k < 32 / kLanes; ++k) {
    if (k * kLanes + group_lane < bytes) held[k] = from[k * kLanes + group_lane];
  }
}

// Decodes the next token of all groups, if all are short and their matches do not overlap themselves; else does
// nothing. A branch-free path for the most common tokens.
template <unsigned kLanes>
__device__ __forceinline__ bool plain_token(Walk& walk, const Byte* ring, unsigned group_lane,
                                            std::uint32_t& held_bytes, Byte (&held)[32 / kLanes]) {
  using S = Shape<kLanes>;
  const Byte* const view = ring + (walk.at & (S::kRingBytes - 1));
  const std::uint32_t token = view[0], extended = view[1];
  std::uint32_t literals = token >> 4, first = 1;
  if (literals == 15) {
    literals += extended;
    first = 2;
  }
  std::uint32_t next = first + (literals <= S::kShortLiterals ? literals : 0);
  const std::uint32_t offset = view[next] | static_cast<std::uint32_t>(view[next + 1]) << 8;
  const std::uint32_t more = view[next + 2];
  std::uint32_t match = (token & 15) + 4;
  next += 2;
  if (match == 19) {
    match += more;
    next += 1;
  }
  const std::uint32_t written = walk.done + literals;
  const bool plain = walk.pending == kNoToken && walk.in.end - walk.at >= S::kLookahead &&
                     literals <= S::kShortLiterals && match <= kShort && offset >= match && offset <= written &&
                     written + match + kLastOutput <= walk.end;
  if (!__all_sync(kAllLanes, plain)) return false;
  Byte* const to = walk.dst + walk.done;
  store_held<kLanes>(to, group_lane, held_bytes, held);
  HEADRACE_UNROLL(1)
  for (std::uint32_t i = group_lane; i < literals; i += 2 * kLanes) {
    const bool two = i + kLanes < literals;
    const Byte one = view[first + i], other = two ? view[first + i + kLanes] : Byte{0};
    to[i] = one;
    if (two) to[i + kLanes] = other;
  }
  __syncwarp();
  load_held<kLanes>(to + literals - offset, match, group_lane, held_bytes, held);
  walk.done = written + match;
  walk.at += next;
  return true;
}

// Decodes the streams of one warp's groups. `mine`: whether this group has one. `ring`: the group's own.
template <unsigned kLanes>
__device__ inline void decode_streams(const Lz4Stream* streams, std::uint32_t index, bool mine, Byte* ring,
                                      std::uint64_t* outcomes, unsigned stage) {
  using device::DecodeReason;
  using S = Shape<kLanes>;
  const unsigned lane = lane_id(), group_lane = lane % kLanes;
  Walk walk;
  walk.pending = kEnded;
  walk.copy_bytes = walk.at = walk.in.end = walk.done = walk.end = 0;
  walk.in.base = walk.dst = nullptr;
  walk.copy_offset = kPlain;
  if (mine && streams[index].kind != Lz4Kind::kNone) {
    const std::uint32_t chunk = streams[index].chunk;
    if (*static_cast<const volatile std::uint64_t*>(&outcomes[chunk]) == device::DecodeOutcome::kOk) {
      const DecodeReason reason = begin(streams[index], S::kUnitBytes, walk);
      if (reason != DecodeReason::kNone && group_lane == 0) lz4_give_up(outcomes, chunk, stage, 0, reason);
    }
  }
  // Input up to here is in the ring; `ahead` holds this lane's part of the next unit.
  std::uint32_t filled = walk.live() ? walk.at & ~(S::kUnitBytes - 1) : 0;
  Words<S::kLaneWords> ahead{};
  const unsigned unit_at = group_lane * 4 * S::kLaneWords;
  if (walk.live()) ahead = load_unit<S::kLaneWords>(walk.in, filled + unit_at);
  // The last bytes before walk.done, loaded but not yet stored while the next token is parsed.
  std::uint32_t held_bytes = 0;
  Byte held[S::kGroups] = {};

  for (;;) {
    if (__any_sync(kAllLanes, walk.copy_bytes != 0 || !walk.live())) {
      __syncwarp();
      run_copies(walk, __ballot_sync(kAllLanes, walk.copy_bytes != 0 && group_lane == 0), lane);
      if (!__any_sync(kAllLanes, walk.live())) break;
    }
    fill<kLanes>(walk.in, walk.live() ? walk.at : walk.in.end, ring, group_lane, filled, ahead);
    __syncwarp();
    while (plain_token<kLanes>(walk, ring, group_lane, held_bytes, held)) {
      fill<kLanes>(walk.in, walk.at, ring, group_lane, filled, ahead);
      __syncwarp();
    }

    std::uint32_t match = 0, offset = 0;
    if (walk.live()) {
      const Byte* const view = ring + (walk.at & (S::kRingBytes - 1));
      std::uint32_t first = 0, literals = 0, token = walk.pending;
      bool fast = walk.in.end - walk.at >= S::kLookahead;
      if (fast) {
        if (token == kNoToken) {
          token = view[0];
          literals = token >> 4;
          first = 1;
          if (literals == 15) {
            literals += view[1];
            first = 2;
          }
        }
        fast = literals <= S::kShortLiterals;
      }
      std::uint32_t next = first + literals;
      if (fast) {
        offset = view[next] | static_cast<std::uint32_t>(view[next + 1]) << 8;
        match = (token & 15) + 4;
        const std::uint32_t more = view[next + 2];
        next += 2;
        if (match == 19) {
          match += more;
          next += 1;
        }
        const std::uint32_t written = walk.done + literals;
        fast = offset - 1 < written && written + match + kLastOutput <= walk.end && match != 19 + 255;
      }
      Byte* const to = walk.dst + walk.done;
      store_held<kLanes>(to, group_lane, held_bytes, held);
      if (fast) {
        HEADRACE_UNROLL(1)
        for (std::uint32_t i = group_lane; i < literals; i += kLanes) to[i] = view[first + i];
        walk.done += literals;
        walk.at += next;
        walk.pending = kNoToken;
      } else {
        match = 0;
        const DecodeReason reason = slow_step(walk);
        if (reason != DecodeReason::kNone) {
          if (group_lane == 0) lz4_give_up(outcomes, streams[index].chunk, stage, walk.at - walk.in.begin, reason);
          walk.pending = kEnded;
          walk.copy_bytes = 0;
        } else if (walk.at >= filled + S::kUnitBytes) {
          filled = walk.at & ~(S::kUnitBytes - 1);
          ahead = load_unit<S::kLaneWords>(walk.in, filled + unit_at);
        }
      }
    }
    __syncwarp();

    if (match != 0) {
      if (match > kShort) {
        walk.copy_bytes = match;
        walk.copy_offset = offset;
      } else {
        Byte* const match_to = walk.dst + walk.done;
        const Byte* const from = match_to - offset;
        if (offset < match) {
          // The match overlaps itself: copies one period at a time.
          HEADRACE_UNROLL(1)
          for (std::uint32_t i = group_lane; i < match; i += kLanes) match_to[i] = from[repeated(i, offset)];
        } else {
          load_held<kLanes>(from, match, group_lane, held_bytes, held);
        }
      }
      walk.done += match;
    }
  }
}

}  // namespace inorder

// What the host knows for choosing the number of lanes.
struct Lz4InorderChoice {
  std::uint32_t multiprocessors = 1;
  std::uint32_t lanes = 0;  // 0: chosen by the device
  bool sparse = false;      // poor ratio: mostly literals
};
// With fewer streams per multiprocessor than this, a warp decodes one stream by steps; measured on an H200:
// docs/design/gpu_lz4.md.
inline constexpr std::uint32_t kLz4InorderFew = 80, kLz4InorderFewSparse = 12;

__device__ inline unsigned lz4_inorder_lanes(std::uint32_t streams, const Lz4InorderChoice& choice) {
  if (choice.lanes != 0) return choice.lanes;
  if (streams >= choice.multiprocessors * kLz4InorderFew) return 8;
  return choice.sparse && streams >= choice.multiprocessors * kLz4InorderFewSparse ? 16 : 32;
}

// Bytes of shared memory, aligned to 16, that a block of `kThreads` needs.
template <unsigned kLanes, unsigned kThreads>
inline constexpr unsigned kLz4InorderSharedBytes = kLanes == 32 ? kThreads / 32 * sizeof(inorder::StepSpace)
                                                                : kThreads / kLanes* inorder::Shape<kLanes>::kRingRoom;

// Kernel body, for blocks of whole warps. The streams of a warp's groups are far apart in the list, so that planes of
// one shuffled block, which take different times, do not wait for each other.
template <unsigned kLanes>
__device__ inline void lz4_inorder_body(const Lz4Stream* streams, std::uint32_t count, std::uint64_t* outcomes,
                                        unsigned stage, unsigned char* shared) {
  using S = inorder::Shape<kLanes>;
  const unsigned warps_a_block = blockDim.x / 32, warps = gridDim.x * warps_a_block;
  const unsigned warp = blockIdx.x * warps_a_block + threadIdx.x / 32;
  if constexpr (kLanes == 32) {
    auto* const spaces = reinterpret_cast<inorder::StepSpace*>(shared);
    for (std::uint32_t i = warp; i < count; i += warps) {
      inorder::decode_by_steps(streams[i], spaces[threadIdx.x / 32], outcomes, stage);
      __syncwarp();
    }
  } else {
    const unsigned group = inorder::lane_id() / kLanes;
    unsigned char* const ring = shared + (threadIdx.x / kLanes) * S::kRingRoom;
    const std::uint32_t a_group = ((count + S::kGroups - 1) / S::kGroups + 15) / 16 * 16;
    for (std::uint32_t i = warp; i < a_group; i += warps) {
      const std::uint64_t own = i + static_cast<std::uint64_t>(group) * a_group;
      inorder::decode_streams<kLanes>(streams, own < count ? static_cast<std::uint32_t>(own) : 0, own < count, ring,
                                      outcomes, stage);
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu
