// Paths through a segment: step 2 of lz4_graph_device.cuh.
#pragma once

#include "lz4_graph_device.cuh"

namespace headrace::codec::gpu::tiles {

template <class Shape>
struct SegmentShared {
  static constexpr U32 kOwned = Shape::kWarm + Shape::kSegment;
  alignas(16) U8 window[Shape::kBuffer];
  U32 owner[kOwned / 8 + kOwned / 128 + 1];     // by byte, 4 bits: number of the lane's walk that reached it, or 0
  U32 exit[Shape::kThreads * Shape::kNodes];    // by node_of(): where the walk left the lane
  U16 next[Shape::kThreads * Shape::kNodes];    // the walk that continues there, or kNoNode
  U8 pending[Shape::kThreads * Shape::kNodes];  // starting positions in the lane, found by the lanes before
  U32 pendings[Shape::kThreads];
  U8 entry[Shape::kCandidates * Shape::kLanes];  // by candidate and lane, like GraphArrays::lane_entry
  U32 candidate_exit[Shape::kCandidates], candidate_started[Shape::kCandidates], candidate_kept[Shape::kCandidates];
  U32 kept[Shape::kPaths], kept_count;
  U64 sums[32];

  static constexpr U32 kNoNode = 0xffff;
  __device__ static U32 node_of(U32 lane, U32 walk) { return walk * Shape::kThreads + lane; }
  // `at` is relative to the first warm lane. Indices are spread like those of the window.
  __device__ static U32 owner_word(U32 at) { return at / 8 + at / 128; }
  __device__ U32 owner_of(U32 at) const { return owner[owner_word(at)] >> (at % 8 * 4) & 15; }
};

// Walks a lane from each position that `next_place` returns (kNoPosition: no more), to where it leaves the lane or
// meets an earlier walk. By a whole warp, which reconverges at each step; otherwise its lanes would stay diverged.
template <class Shape, class NextPlace>
__device__ inline void walk_lane(SegmentShared<Shape>& shared, const Lz4Bytes& bytes, U32 origin, U32 lane, U32 stop,
                                 U32& walks, NextPlace next_place) {
  U32* const exits = shared.exit + lane;  // kThreads apart
  const bool fast = all_in_window(bytes, stop - Shape::kLaneBytes, stop);
  U32 p = kNoPosition;
  bool more = true, walking = false;
  for (;;) {
    if (!walking && more) {
      p = walks < Shape::kNodes ? next_place() : kNoPosition;
      more = p != kNoPosition;
      walking = more && shared.owner_of(p - origin) == 0;
      if (walking) ++walks;
    }
    if (!__any_sync(kAllLanes, walking || more)) break;
    if (walking) {
      const U32 at = p - origin, word = shared.owner[shared.owner_word(at)], owner = word >> (at % 8 * 4) & 15;
      if (owner != 0) {
        exits[(walks - 1) * Shape::kThreads] = exits[(owner - 1) * Shape::kThreads];
        walking = false;
      } else {
        shared.owner[shared.owner_word(at)] = word | walks << (at % 8 * 4);
        U32 length;
        p = step<Shape>(bytes, fast, p, length);
        if (p >= stop) {
          exits[(walks - 1) * Shape::kThreads] = p;
          walking = false;
        }
      }
    }
  }
}

// `again`: only skipped segments, of streams that need them.
//
// A thread's lane begins at start + (thread - kWarmLanes) * kLaneBytes. Segment 0 has no warm lanes: it begins with the
// first token.
template <class Shape>
__device__ inline void walk_segment(SegmentShared<Shape>& shared, const GraphArrays& g, U32 segment, bool again) {
  const U32 t = threadIdx.x;
  if (again ? g.skip[segment] == 0 || g.retry[g.segment_stream[segment]] == 0 : g.skip[segment] != 0) {
    if (!again && t == 0) g.path_count[segment] = 0;
    return;
  }
  const TileStream s = g.streams[g.segment_stream[segment]];
  const U32 start = (segment - s.first_segment) * Shape::kSegment, stop = start + Shape::kSegment;
  const bool first = start == 0;
  const U32 low = first ? 0 : start - Shape::kWarm;
  const U32 origin = start - Shape::kWarm;  // wraps in segment 0, where no position before `start` is used
  fill_window(shared.window, low, Shape::kBuffer, s, t, Shape::kThreads);
  for (U32 i = t; i < sizeof(shared.owner) / 4; i += Shape::kThreads) shared.owner[i] = 0;
  for (U32 i = t; i < Shape::kCandidates * Shape::kLanes; i += Shape::kThreads) shared.entry[i] = kNoEntry;
  shared.pendings[t] = 0;
  const U32 lane_start = origin + t * Shape::kLaneBytes, lane_stop = lane_start + Shape::kLaneBytes;
  const bool has_lane = !(first && t < Shape::kWarmLanes) && lane_start < s.end;
  const U32 lane_first = first && t == Shape::kWarmLanes ? s.begin : lane_start;
  const Lz4Bytes bytes = bytes_of(s, runs_of(g, s, Shape::kRun, Shape::kSegment), shared.window, low, Shape::kBuffer);
  const auto lane_of = [&](U32 p) { return (p - origin) / Shape::kLaneBytes; };
  __syncthreads();
  U32 walks = 0, told = 0, done = 0;
  U32 guess = 0;
  walk_lane<Shape>(shared, bytes, origin, t, lane_stop, walks, [&] {
    const U32 p = lane_first + guess++;
    return has_lane && guess <= Shape::kGuesses && p < lane_stop ? p : kNoPosition;
  });
  for (U32 round = 0; round < Shape::kRounds; ++round) {
    __syncthreads();
    for (; told < walks; ++told) {
      const U32 exit = shared.exit[shared.node_of(t, told)];
      if (exit >= stop || shared.owner_of(exit - origin) != 0) continue;
      const U32 to = lane_of(exit), slot = atomicAdd(&shared.pendings[to], 1u);
      if (slot < Shape::kNodes) {
        shared.pending[to * Shape::kNodes + slot] = static_cast<U8>(exit - origin - to * Shape::kLaneBytes);
      }
    }
    __syncthreads();
    const U32 asked = shared.pendings[t] < Shape::kNodes ? shared.pendings[t] : Shape::kNodes;
    if (__syncthreads_or(done < asked && walks < Shape::kNodes ? 1 : 0) == 0) break;
    walk_lane<Shape>(shared, bytes, origin, t, lane_stop, walks, [&] {
      return done < asked ? lane_start + shared.pending[t * Shape::kNodes + done++] : kNoPosition;
    });
  }
  __syncthreads();
  for (U32 i = 0; i < walks; ++i) {
    const U32 exit = shared.exit[shared.node_of(t, i)];
    const U32 owner = exit < stop && exit < s.end ? shared.owner_of(exit - origin) : 0;
    shared.next[shared.node_of(t, i)] =
        static_cast<U16>(owner != 0 ? shared.node_of(lane_of(exit), owner - 1) : shared.kNoNode);
  }
  __syncthreads();
  // Candidates for paths: the first guesses, then later positions that these do not reach.
  static_assert(Shape::kCandidates <= 32);
  if (t < 32) {
    U32 p = kNoPosition;
    if (t < Shape::kGuesses) {
      p = first ? s.begin + t : origin + t;
    } else if (t < Shape::kCandidates) {
      constexpr U32 kApart = Shape::kLanes / (Shape::kCandidates / Shape::kGuesses - 1);
      const U32 lane = (t / Shape::kGuesses - 1) * kApart;
      p = (lane == 0 && first ? s.begin : start + lane * Shape::kLaneBytes) + t % Shape::kGuesses;
    }
    U32 begun = kUnknown, node = shared.kNoNode;
    while (__any_sync(kAllLanes, p < stop && p < s.end)) {
      if (p >= stop || p >= s.end) continue;
      const U32 lane = lane_of(p);
      if (lane >= Shape::kWarmLanes) {
        if (begun == kUnknown) begun = lane - Shape::kWarmLanes;
        shared.entry[t * Shape::kLanes + lane - Shape::kWarmLanes] =
            static_cast<U8>(p - origin - lane * Shape::kLaneBytes);
      }
      if (node == shared.kNoNode) {
        const U32 owner = shared.owner_of(p - origin);
        if (owner != 0) node = shared.node_of(lane, owner - 1);
      }
      if (node != shared.kNoNode) {
        p = shared.exit[node];
        node = shared.next[node];
      } else {
        U64 sum = 0;
        p = walk<Shape>(bytes, p, origin + (lane + 1) * Shape::kLaneBytes, sum);
      }
    }
    if (t < Shape::kCandidates) {
      shared.candidate_exit[t] = p;
      shared.candidate_started[t] = begun;
    }
  }
  __syncthreads();
  if (t < Shape::kCandidates) {  // candidates that soon meet an earlier one are redundant
    const U32 begun = shared.candidate_started[t];
    // A path that ends in damage is not part of a good stream.
    bool other = begun != kUnknown && (shared.candidate_exit[t] != kBadToken || (first && t == 0));
    for (U32 k = 0; k < t && other; ++k) {
      if (shared.candidate_exit[k] == kBadToken && !(first && k == 0)) continue;
      for (U32 lane = begun; lane < begun + Shape::kMeet && lane < Shape::kLanes; ++lane) {
        const U32 entry = shared.entry[t * Shape::kLanes + lane];
        if (entry != kNoEntry && entry == shared.entry[k * Shape::kLanes + lane]) other = false;
      }
    }
    shared.candidate_kept[t] = other ? 1 : 0;
  }
  __syncthreads();
  if (t == 0) {
    U32 kept = 0;
    for (U32 turn = 0; turn < 2; ++turn) {  // paths that reach the end are preferred
      for (U32 i = 0; i < Shape::kCandidates && kept < Shape::kPaths; ++i) {
        const bool through = i == 0 || shared.candidate_exit[i] - stop < 512;
        if (shared.candidate_kept[i] != 0 && through == (turn == 0)) shared.kept[kept++] = i;
      }
    }
    shared.kept_count = kept;
    g.path_count[segment] = kept;
  }
  __syncthreads();
  for (U32 path = 0; path < shared.kept_count; ++path) {
    const U32 candidate = shared.kept[path];
    const U32 own = t - Shape::kWarmLanes;
    const U32 entry = t >= Shape::kWarmLanes ? shared.entry[candidate * Shape::kLanes + own] : kNoEntry;
    U64 sum = 0;
    const bool fast = all_in_window(bytes, lane_start, lane_stop);
    for (U32 p = entry != kNoEntry ? lane_start + entry : kNoPosition; __any_sync(kAllLanes, p < lane_stop);) {
      if (p >= lane_stop) continue;
      U32 length;
      p = step<Shape>(bytes, fast, p, length);
      sum += length;
    }
    const U64 after = sum + block_sum_after(sum, shared.sums);
    if (t >= Shape::kWarmLanes) {
      const U64 at = (static_cast<U64>(segment) * Shape::kPaths + path) * Shape::kLanes + own;
      g.lane_entry[at] = static_cast<U8>(entry);
      g.lane_after[at] = after < kTooMuch ? static_cast<U32>(after) : kTooMuch;
    }
    if (t == 0) g.path_exit[segment * Shape::kPaths + path] = shared.candidate_exit[candidate];
  }
}

}  // namespace headrace::codec::gpu::tiles
