// LZ4 streams decoded in order: device code without a CUDA header, run on the CPU by tests.
//
// With 32 lanes a stream, by steps: lz4_steps_device.cuh. With fewer, a group of lanes walks one stream, token by token;
// a warp's groups go in step. All lanes of a group parse the same token from a ring of input bytes in shared memory,
// which is filled one unit ahead, and copy short literals and matches a byte a lane. Whatever is long (above kShort
// bytes) is left to the whole warp, one copy after the other. docs/design/gpu_decode.md tells why.
#pragma once

#include "lz4_steps_device.cuh"
#include "lz4_walk_device.cuh"

namespace headrace::codec::gpu {
namespace inorder {

// The copies of all groups, one after the other. `wanted` has one bit for each group that has one.
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

// Decodes the streams of one warp's groups. `mine` says whether this group has one. `ring` is the group's own.
template <unsigned kLanes>
__device__ inline void decode_streams(const Lz4Stream* stream, bool mine, Byte* ring, std::uint64_t* outcomes,
                                      unsigned stage) {
  using device::DecodeReason;
  using S = Shape<kLanes>;
  constexpr std::uint32_t kMask = S::kRingBytes - 1;
  const unsigned lane = lane_id(), group_lane = lane % kLanes;
  Walk walk;
  walk.live = false;
  walk.copy_bytes = 0;
  if (mine && stream->kind != Lz4Kind::kNone) {
    const std::uint32_t chunk = stream->chunk;
    if (*static_cast<const volatile std::uint64_t*>(&outcomes[chunk]) == device::DecodeOutcome::kOk) {
      const DecodeReason reason = begin(*stream, S::kUnitBytes, walk);
      if (reason != DecodeReason::kNone && group_lane == 0) lz4_give_up(outcomes, chunk, stage, 0, reason);
    }
  }
  // Input up to here is in the ring; `ahead` holds this lane's part of the unit that follows.
  std::uint32_t filled = 0;
  Words<S::kLaneWords> ahead{};
  const unsigned unit_at = group_lane * 4 * S::kLaneWords;
  if (walk.live) ahead = load_unit<S::kLaneWords>(walk.in, unit_at);

  for (;;) {
    const unsigned special = __ballot_sync(kAllLanes, walk.copy_bytes != 0 || !walk.live);
    if (special != 0) {
      __syncwarp();
      run_copies(walk, __ballot_sync(kAllLanes, walk.copy_bytes != 0 && group_lane == 0), lane);
      if (!__any_sync(kAllLanes, walk.live)) break;
    }
    if (walk.live) {
      // Overwrites what lies a ring before: all of it is behind `at`, as less than the lookahead is in front of it.
      while (filled < walk.at + kLookahead && filled < walk.in.end) {
        auto* const slot = reinterpret_cast<std::uint32_t*>(ring + ((filled + unit_at) & kMask));
        for (unsigned k = 0; k < S::kLaneWords; ++k) slot[k] = ahead.w[k];
        if ((filled & kMask) == 0) {
          for (unsigned k = 0; k < S::kLaneWords; ++k) slot[k + S::kRingBytes / 4] = ahead.w[k];
        }
        filled += S::kUnitBytes;
        ahead = load_unit<S::kLaneWords>(walk.in, filled + unit_at);
      }
    }
    __syncwarp();

    std::uint32_t match = 0, offset = 0;
    if (walk.live) {
      const Byte* const view = ring + (walk.at & kMask);
      std::uint32_t first = 0, literals = 0, token = walk.pending;
      bool fast = walk.in.end - walk.at >= kLookahead;
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
        fast = literals <= kShort;
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
      if (fast) {
        Byte* const to = walk.dst + walk.done;
        for (std::uint32_t i = group_lane; i < literals; i += kLanes) to[i] = view[first + i];
        walk.done += literals;
        walk.at += next;
        walk.pending = kNoToken;
      } else {
        match = 0;
        const DecodeReason reason = slow_step(walk);
        if (reason != DecodeReason::kNone) {
          if (group_lane == 0) lz4_give_up(outcomes, stream->chunk, stage, walk.at - walk.in.begin, reason);
          walk.live = false;
          walk.copy_bytes = 0;
        } else if (walk.at >= filled + S::kUnitBytes) {
          filled = walk.at & ~(S::kUnitBytes - 1);
          ahead = load_unit<S::kLaneWords>(walk.in, filled + unit_at);
        }
      }
    }
    __syncwarp();

    if (match != 0) {
      Byte* const to = walk.dst + walk.done;
      const Byte* const from = to - offset;
      if (match > kShort) {
        walk.copy_bytes = match;
        walk.copy_offset = offset;
      } else {
        // A period at a time where the match overlaps itself.
        std::uint32_t place[S::kGroups];
        for (unsigned k = 0; k < S::kGroups; ++k) place[k] = k * kLanes + group_lane;
        if (offset < match) {
          for (unsigned k = 0; k < S::kGroups; ++k) place[k] = repeated_near(place[k], offset);
        }
        Byte v[S::kGroups];
        for (unsigned k = 0; k < S::kGroups; ++k) {
          if (k * kLanes + group_lane < match) v[k] = from[place[k]];
        }
        for (unsigned k = 0; k < S::kGroups; ++k) {
          if (k * kLanes + group_lane < match) to[k * kLanes + group_lane] = v[k];
        }
      }
      walk.done += match;
    }
  }
}

}  // namespace inorder

// Bytes of shared memory, aligned to 16, that a block of so many threads needs.
template <unsigned kLanes, unsigned kThreads>
inline constexpr unsigned kLz4InorderSharedBytes =
    kLanes == 32 ? kThreads / 32 * sizeof(inorder::StepSpace) : kThreads / kLanes * inorder::Shape<kLanes>::kRingRoom;

// A kernel's body; blocks of whole warps. The streams of a warp's groups are far apart in the list, so that the planes
// of one shuffled block, which differ in length of work, do not wait for each other.
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
      inorder::decode_streams<kLanes>(&streams[own < count ? own : 0], own < count, ring, outcomes, stage);
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu
