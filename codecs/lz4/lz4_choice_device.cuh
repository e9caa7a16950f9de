// Decides which of a batch's streams go by tiles: on the device, from the streams' sizes.
//
// In order, a stream's tokens are decoded serially, so a batch of few streams takes as long as its longest one. By
// tiles, the whole device works on each stream, at a cost per byte. Streams above some encoded size therefore go by
// tiles and the others in order; the threshold is the cheapest of a few candidates.
#pragma once

#include "lz4_graph_device.cuh"
#include "lz4_tiles.h"

namespace headrace::codec::gpu::tiles {

// Encoded sizes are grouped in classes: below 1 KiB, below 2 KiB, ... The last class has no upper bound.
inline constexpr U32 kSizeClasses = 11, kSmallestClassShift = 10;

// Sums over the streams of each class, and over those that go in order in any case.
struct SizeClasses {
  U64 src[kSizeClasses + 1], dst[kSizeClasses + 1];
  U32 longest[kSizeClasses + 1];  // time of the longest one in order, in units of kUnitNs
};
inline constexpr U32 kUnitNs = 16;  // 64 MiB at 60 ns per byte take more than 2^32 ns

// For a block that did not shrink: whether nearly all of it seems to be the literals of its first token. Such a length
// is a run of 0xFF, of which 32 bytes are sampled. By a warp, which has `stream` in one of its lanes.
__device__ inline bool is_one_run(const Lz4Stream& stream, U32 of_lane, U32 lane) {
  const U8* const src = inorder::pointer_from_lane(stream.src, of_lane);
  const U32 bytes = __shfl_sync(kAllLanes, stream.src_bytes, of_lane);
  const U32 full = (bytes - bytes / 64) / 255;  // bytes of 0xFF in a length that covers nearly all
  const bool ones = src[0] >= 0xf0 && (full == 0 || src[1 + static_cast<U64>(full) * lane / 32] == 255);
  return __all_sync(kAllLanes, ones);
}

__device__ inline bool did_not_shrink(const Lz4Stream& s) {
  return s.src_bytes != 0 && s.src_bytes + s.src_bytes / 64 >= s.dst_bytes;
}

// Estimated time of a stream in order. More literals mean fewer tokens per encoded byte. A warp copies literals many
// times faster (0.7 ns per byte) than it walks tokens.
__device__ inline U32 time_alone(const Lz4Stream& s, bool one_run, const Lz4TilesChoice& cost) {
  const auto src = static_cast<float>(s.src_bytes), dst = static_cast<float>(s.dst_bytes);
  if (one_run) return static_cast<U32>(src / 64 * cost.in_order_match_ns / kUnitNs);
  const float literals = src < dst ? src / dst : 1;
  return static_cast<U32>(
      src * (cost.in_order_match_ns - (cost.in_order_match_ns - cost.in_order_literal_ns) * literals) / kUnitNs);
}

__device__ inline U32 size_class(U32 src_bytes) {
  U32 at = 0;
  while (at + 1 < kSizeClasses && src_bytes >> (kSmallestClassShift + at) != 0) ++at;
  return at;
}

// Minimum encoded size for streams to go by tiles; kNoPosition: none does.
__device__ inline U32 cheapest(const SizeClasses& classes, const Lz4TilesChoice& cost) {
  U32 best = kNoPosition;
  float least = 0;
  for (U32 first = kSizeClasses; first > 0; --first) {  // classes from this number on go by tiles
    float tiles = 0, src = 0, dst = 0, longest = 0;
    bool any = false;
    for (U32 i = 0; i <= kSizeClasses; ++i) {
      const auto class_src = static_cast<float>(classes.src[i]), class_dst = static_cast<float>(classes.dst[i]);
      if (i >= first && i < kSizeClasses) {
        any = any || classes.src[i] != 0;
        tiles += class_src * cost.tiles_src_ns + class_dst * cost.tiles_dst_ns;
      } else {
        src += class_src;
        dst += class_dst;
        const auto one = static_cast<float>(classes.longest[i]);
        longest = one > longest ? one : longest;
      }
    }
    const float together = src * cost.in_order_src_ns + dst * cost.in_order_dst_ns;
    const float alone = longest * kUnitNs;
    const float all = (any ? tiles + cost.tiles_ns : 0) + (alone > together ? alone : together);
    if (first != kSizeClasses && (!any || all >= least)) continue;
    least = all;
    best = first == kSizeClasses ? kNoPosition : 1u << (kSmallestClassShift + first - 1);
  }
  return best;
}

// By one thread block; all threads return the answer.
__device__ inline TileLeast choose_streams(SizeClasses& shared, const Lz4Stream* streams, U32 count, U32 smallest,
                                           const Lz4TilesChoice& choice) {
  TileLeast least{choice.min_src, smallest, choice.stored, choice.from};
  if (choice.min_src != 0) return least;
  least.src = kNoPosition;
  if (count > kLz4TilesMostStreams) {
    least.stored = kNoPosition;
    return least;
  }
  for (U32 i = threadIdx.x; i <= kSizeClasses; i += blockDim.x) {
    shared.src[i] = shared.dst[i] = 0;
    shared.longest[i] = 0;
  }
  __syncthreads();
  const U32 lane = threadIdx.x % 32;
  bool any = false;
  for (U32 i0 = 0; i0 < count; i0 += blockDim.x) {
    const U32 i = i0 + threadIdx.x;
    const Lz4Stream s = i < count ? streams[i] : Lz4Stream{};
    // Smaller streams may be in use by other launches. Copies take a fraction of the time of the others.
    const bool counts = i < count && s.dst_bytes >= choice.from && s.kind == Lz4Kind::kBlock;
    bool one_run = false;
    for (U32 large = __ballot_sync(kAllLanes, counts && did_not_shrink(s)); large != 0; large &= large - 1) {
      const U32 who = static_cast<U32>(__ffs(static_cast<int>(large))) - 1;
      const bool run = is_one_run(s, who, lane);
      one_run |= run && who == lane;
    }
    if (!counts) continue;
    any = true;
    const U32 at = s.dst_bytes < smallest || s.dst_bytes > kLargestLz4 ? kSizeClasses : size_class(s.src_bytes);
    atomicAdd(&shared.src[at], static_cast<U64>(s.src_bytes));
    atomicAdd(&shared.dst[at], static_cast<U64>(s.dst_bytes));
    atomicMax(&shared.longest[at], time_alone(s, one_run, choice));
  }
  if (__syncthreads_or(any ? 1 : 0) != 0) least.src = cheapest(shared, choice);
  return least;
}

}  // namespace headrace::codec::gpu::tiles
