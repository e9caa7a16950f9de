// From paths through segments to the true tokens. See lz4_graph_device.cuh.
#pragma once

#include "lz4_paths_device.cuh"

namespace headrace::codec::gpu::tiles {

// ---- from path to path ----

template <class Shape>
struct JoinShared {  // one per warp
  static constexpr U32 kBytes = 1024;
  alignas(16) U8 window[kBytes];
};

template <class Shape>
__device__ inline U64 lane_index(U32 segment, U32 path, U32 lane) {
  return (static_cast<U64>(segment) * Shape::kPaths + path) * Shape::kLanes + lane;
}
// The segment's path that enters `lane` at `entry`, or kUnknown. By a warp.
template <class Shape>
__device__ inline U32 find_path(const GraphArrays& g, U32 segment, U32 paths, U32 lane, U32 entry) {
  const U32 path = threadIdx.x % 32;
  const U32 found =
      __ballot_sync(kAllLanes, path < paths && g.lane_entry[lane_index<Shape>(segment, path, lane)] == entry);
  return found != 0 ? static_cast<U32>(__ffs(static_cast<int>(found))) - 1 : kUnknown;
}

// Walks the tokens that begin in the 32 bytes from p on and before `stop`; all_in_window() must hold for these. Every
// lane of a warp parses its byte as if a token began there, and pointer doubling finds which are true tokens. Stops at
// a token that has a length of more bytes. Adds the output to `sum`. Returns the position reached.
__device__ inline U32 warp_step(const Lz4Bytes& s, U32 p, U32 stop, U64& sum) {
  const U32 lane = threadIdx.x % 32;
  U32 length = 0;
  const U32 next = next_in_window(s, p + lane, length);
  U32 reached = 1u << lane, hop = next != 0 && next < stop && next - p < 32 ? next - p : 32;
  for (U32 r = 0; r < 4; ++r) {  // a token has at least 3 bytes
    const U32 further = __shfl_sync(kAllLanes, reached, hop & 31), landed = __shfl_sync(kAllLanes, hop, hop & 31);
    if (hop >= 32) continue;
    reached |= further;
    hop = landed;
  }
  const U32 taken = __shfl_sync(kAllLanes, reached, 0);
  sum += __reduce_add_sync(kAllLanes, (taken >> lane & 1) != 0 && next != 0 ? length : 0);
  const U32 last = 31 - static_cast<U32>(__clz(static_cast<int>(taken)));
  const U32 behind = __shfl_sync(kAllLanes, next, last);
  return behind != 0 ? behind : p + last;
}

// Walks from p, in the stream's segment `segment`, to the segment's end, or until it reaches one of the segment's
// paths; then `path` is set. Adds the output to `sum`. Returns where it left the segment, if it did. By a warp.
template <class Shape>
__device__ inline U32 warp_walk(JoinShared<Shape>& shared, const GraphArrays& g, const TileStream& s, U32 segment,
                                U32 p, U64& sum, U32& path) {
  const U32 lane = threadIdx.x % 32;
  const U32 start = segment * Shape::kSegment, stop = start + Shape::kSegment;
  const U16* const runs = runs_of(g, s, Shape::kRun, Shape::kSegment);
  const U32 paths = g.path_count[s.first_segment + segment];
  U32 low = 0, size = 0;
  path = kUnknown;
  while (p < stop) {
    const U32 own = (p - start) / Shape::kLaneBytes, lane_start = start + own * Shape::kLaneBytes;
    path = find_path<Shape>(g, s.first_segment + segment, paths, own, p - lane_start);
    if (path != kUnknown) {
      sum += g.lane_after[lane_index<Shape>(s.first_segment + segment, path, own)];
      return p;
    }
    const U32 until = lane_start + Shape::kLaneBytes;
    while (p < until) {
      if (p - low >= size || (p - low > size - 32 - kLongestShort && low + size < s.end)) {
        __syncwarp();
        low = p / 16 * 16;
        size = JoinShared<Shape>::kBytes;
        fill_window(shared.window, low, size, s, lane, 32);
        __syncwarp();
      }
      const Lz4Bytes bytes = bytes_of(s, runs, shared.window, low, size);
      const bool fast = all_in_window(bytes, p, p + 32);
      if (fast) {
        const U32 from = p;
        p = warp_step(bytes, p, until, sum);
        if (p != from) continue;
      }
      U64 walked = 0;
      if (lane == 0) {
        const U32 here = until < low + size ? until : low + size;
        p = walk<Shape>(bytes, p, fast ? p + 1 : here, walked);
      }
      p = __shfl_sync(kAllLanes, p, 0);
      const U32 walked_low = __shfl_sync(kAllLanes, static_cast<U32>(walked), 0);
      const U32 walked_high = __shfl_sync(kAllLanes, static_cast<U32>(walked >> 32), 0);
      sum += static_cast<U64>(walked_high) << 32 | walked_low;
    }
  }
  return p;
}

// Finds the successor of each path, one path per warp. `again`: for streams that pass through skipped segments.
template <class Shape>
__device__ inline void join_segments(JoinShared<Shape>* shared, const GraphArrays& g, bool again) {
  const TilePlan plan = *g.plan;
  if (again && plan.retry == 0) return;
  const U32 lane = threadIdx.x % 32;
  const U32 warps = gridDim.x * (blockDim.x / 32);
  const U32 nodes = plan.segments * Shape::kPaths;
  for (U32 node = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; node < nodes; node += warps) {
    const U32 segment = node / Shape::kPaths;
    if (node % Shape::kPaths >= g.path_count[segment]) continue;
    const U32 index = g.segment_stream[segment];
    if (again && g.retry[index] == 0) continue;
    const TileStream s = g.streams[index];
    U32 p = g.path_exit[node], landings = 0, edge = kUnknown;
    for (; landings < Shape::kLandings && p < kUnknown; ++landings) {
      const U32 to = p / Shape::kSegment;
      if (!again && g.skip[s.first_segment + to] != 0) break;
      Landing landing{0, p, 0};
      U32 path;
      p = warp_walk<Shape>(shared[threadIdx.x / 32], g, s, to, p, landing.bytes, path);
      if (lane == 0) g.landings[node * Shape::kLandings + landings] = landing;
      if (path != kUnknown) {
        edge = to * Shape::kPaths + path;
        ++landings;
        break;
      }
    }
    if (edge == kUnknown && (p == kStreamEnd || p == kBadToken)) edge = p;  // the end, or damage
    if (lane == 0) {
      g.edge[node] = edge;
      g.edge_at[node] = p;
      g.landing_count[node] = landings;
    }
  }
}

// ---- true tokens ----

template <class Shape, U32 window_segments, U32 threads>
struct FollowShared {
  static constexpr U32 kWindow = window_segments, kThreads = threads;
  static constexpr U32 kNodes = window_segments * Shape::kPaths;
  U32 jump[kNodes];
  U8 mark[kNodes];
  U64 sums[32];
  U32 next, at;
  JoinShared<Shape> join;
};

// One block per stream. If the stream passes through a skipped segment, marks it for a repetition with `again`.
template <class Shared, class Shape>
__device__ inline void follow_paths(Shared& shared, const GraphArrays& g, U32 index, std::uint64_t* outcomes,
                                    unsigned stage, bool again) {
  constexpr U32 kEach = (Shared::kNodes + Shared::kThreads - 1) / Shared::kThreads;
  const U32 t = threadIdx.x;
  if (again && g.retry[index] == 0) return;
  const TileStream s = g.streams[index];
  if (s.stored != 0 || s.segments == 0) {
    if (t == 0 && (s.stored != 0 ? s.end - s.begin != s.dst_bytes : s.dst_bytes != 0))
      give_up(outcomes, s.chunk, stage, 0, device::DecodeReason::kWrongSize);
    return;
  }
  const U32 base = s.first_segment;
  if (t == 0) {
    g.entry[base] = s.begin;
    g.bytes[base] = g.lane_after[lane_index<Shape>(base, 0, 0)];
  }
  U32 node = 0, end = kBadToken;
  // Each turn reaches at least the next segment. Nodes in the window are ordered by path first, since most segments
  // have one.
  for (U32 turn = 0; turn <= s.segments; ++turn) {
    const U32 first = node / Shape::kPaths;
    const U32 window = s.segments - first < Shared::kWindow ? s.segments - first : Shared::kWindow;
    const auto place = [&](U32 n) { return n % Shape::kPaths * Shared::kWindow + n / Shape::kPaths - first; };
    U32 valid = 0;
    __syncthreads();
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kEach; ++k) {
      const U32 i = t + k * Shared::kThreads, path = i / Shared::kWindow, segment = i % Shared::kWindow;
      if (i >= Shared::kNodes || segment >= window || path >= g.path_count[base + first + segment]) continue;
      valid |= 1u << k;
      const U32 edge = g.edge[(base + first + segment) * Shape::kPaths + path];
      // A node that points to itself: the way ends here, or leaves the window.
      shared.jump[i] = edge < kUnknown && edge / Shape::kPaths - first < window ? place(edge) : i;
      shared.mark[i] = (first + segment) * Shape::kPaths + path == node ? 1 : 0;
    }
    __syncthreads();
    for (U32 reach = 1; reach < window; reach *= 2) {
      U32 jump[kEach];
      HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kEach; ++k) {
        if ((valid >> k & 1) == 0) continue;
        const U32 i = t + k * Shared::kThreads, to = shared.jump[i];
        if (shared.mark[i] != 0) shared.mark[to] = 1;
        jump[k] = shared.jump[to];
      }
      __syncthreads();
      HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kEach; ++k) {
        if ((valid >> k & 1) != 0) shared.jump[t + k * Shared::kThreads] = jump[k];
      }
      __syncthreads();
    }
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kEach; ++k) {
      const U32 i = t + k * Shared::kThreads;
      if ((valid >> k & 1) == 0 || shared.mark[i] == 0) continue;
      const U32 from = (base + first + i % Shared::kWindow) * Shape::kPaths + i / Shared::kWindow, edge = g.edge[from];
      for (U32 n = 0; n < g.landing_count[from]; ++n) {
        const Landing landing = g.landings[from * Shape::kLandings + n];
        g.entry[base + landing.at / Shape::kSegment] = landing.at;
        g.bytes[base + landing.at / Shape::kSegment] = landing.bytes;
      }
      if (edge >= kUnknown || edge / Shape::kPaths - first >= window) {  // at most one node, as a way does not fork
        shared.next = edge;
        shared.at = g.edge_at[from];
      }
    }
    __syncthreads();
    if (shared.next == kUnknown) {
      __syncthreads();
      if (t < 32) {
        U32 p = shared.at, path = kUnknown;
        for (U32 guard = 0; guard < s.segments && p < kSkipped && path == kUnknown; ++guard) {
          const U32 to = p / Shape::kSegment, at = p;
          if (!again && g.skip[base + to] != 0) {
            p = kSkipped;
            break;
          }
          U64 sum = 0;
          p = warp_walk<Shape>(shared.join, g, s, to, p, sum, path);
          if (t == 0) {
            g.entry[base + to] = at;
            g.bytes[base + to] = sum;
          }
          if (path != kUnknown) p = to * Shape::kPaths + path;
        }
        if (t == 0) shared.next = p;
      }
      __syncthreads();
    }
    end = node = shared.next;
    if (node >= kSkipped) break;
  }
  if (end == kSkipped) {
    if (t == 0) {
      g.retry[index] = 1;
      g.plan->retry = 1;
    }
    return;
  }
  if (end != kStreamEnd) {
    if (t == 0) give_up(outcomes, s.chunk, stage, 0, device::DecodeReason::kTruncated);
    return;
  }
  U64 before = 0;
  for (U32 i0 = 0; i0 < s.segments; i0 += Shared::kThreads) {
    const U32 i = i0 + t;
    const U64 bytes = i < s.segments && g.entry[base + i] != kNoPosition ? g.bytes[base + i] : 0;
    U64 all;
    const U64 here = before + block_sum_before(bytes, shared.sums, all);
    if (i < s.segments) g.out[base + i] = here < s.dst_bytes ? static_cast<U32>(here) : s.dst_bytes;
    before += all;
  }
  if (t == 0 && before != s.dst_bytes) give_up(outcomes, s.chunk, stage, 0, device::DecodeReason::kWrongSize);
}

}  // namespace headrace::codec::gpu::tiles
