// Small LZ4 streams, one cluster of thread blocks each: device code without a CUDA header, run on the CPU by tests.
//
// With few streams, one thread block per stream leaves most of a GPU idle. Here the blocks of a cluster (compute
// capability 9.0) process neighbouring windows concurrently, which lz4_small_device.cuh processes one after the other.
// Two kinds of data pass from block to block, in order:
//   - where the walk enters a window of the input. The rest of token discovery does not depend on earlier windows, and
//     the walk through a window is usually one step for each of 32 ranges.
//   - bytes of the output before a window. A cell that refers to them stays open (kOutside) until the earlier blocks
//     have stored theirs; by then all chains within the window are resolved.
// Each block has a complete table of segments (Shared::before): every block writes its results to all copies.
#pragma once

#include "lz4_small_device.cuh"

namespace headrace::codec::gpu {

// For the CPU, tests/support/cuda_on_cpu.h provides these.
#if defined(__CUDACC__)
namespace cluster {
// Barrier over all threads of all blocks; makes earlier writes to any memory visible to all of them.
__device__ __forceinline__ void sync() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ std::uint32_t rank() {
  std::uint32_t rank = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}
__device__ __forceinline__ std::uint32_t blocks() {
  std::uint32_t blocks = 1;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
#endif
  return blocks;
}
// The address of the same variable in the shared memory of another block.
template <class T>
__device__ __forceinline__ T* of_block(T* at, [[maybe_unused]] std::uint32_t rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  std::uint64_t there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank));
  return reinterpret_cast<T*>(there);
#else
  return at;
#endif
}
}  // namespace cluster
#endif

namespace small {

inline constexpr U32 kMaxBlocks = 8;  // per cluster; every GPU that has clusters supports this size
inline constexpr U32 kMaxTurns = 4;   // streams that a cluster decodes

template <class S>
struct ClusterShared {
  Shared<S> own;
  // Also written by other blocks:
  U32 enters[kMaxBlocks + 1];  // where the walk enters each block's window, and where it leaves the last one
  U32 made[kMaxBlocks];        // output bytes of the tokens of each block's window
  // For this turn and the next one: whether a block's window has anything unusual; whether the stream is to be decoded.
  U32 failed[2][kMaxBlocks];
  U32 good[2];

  U32 mine[kMaxTurns];  // the cluster's streams
};

// Writes a value to the shared memory of all blocks, by one thread of a warp for each block of the cluster.
template <class T>
__device__ __forceinline__ void broadcast_to_blocks(T* at, T value) {
  if (threadIdx.x < cluster::blocks()) *cluster::of_block(at, threadIdx.x) = value;
}

// Finds the true tokens. By all threads of the cluster, which return the same answer.
template <class S>
__device__ inline Known discover_together(ClusterShared<S>& shared, Input& in, U32 dst_bytes) {
  Shared<S>& own = shared.own;
  const U32 rank = cluster::rank(), blocks = cluster::blocks(), segments = (in.end + kSegment - 1) / kSegment;
  U32 p = in.begin, out = 0;
  for (U32 first = 0; first < in.end; first += blocks * S::kIn) {
    const U32 low = first + rank * S::kIn;
    const bool ours = low < in.end;
    if (ours) {
      load(own, in, low);
      map_segment_exits(own, in);
      __syncthreads();
      // The entries of the other windows are not known yet, so walks of their first ranges come later.
      if (threadIdx.x < 32 * S::kWays) walk_guesses(own, in, rank == 0 ? p : kAtBad);
      __syncthreads();
    }
    U32 from = 0;
    for (U32 turn = 0; turn < blocks; ++turn) {
      if (rank == turn && threadIdx.x < 32) {
        const U32 came = turn == 0 ? p : shared.enters[turn];
        const bool inside = ours && came < low + S::kIn;  // otherwise inside a long run of literals
        const U32 to = inside ? chain_ranges(own, in, came, from) : came;
        if (turn == 0 && threadIdx.x == 0) shared.enters[0] = p;
        broadcast_to_blocks(&shared.enters[turn + 1], to);
      }
      cluster::sync();
    }
    const bool inside = ours && shared.enters[rank] < low + S::kIn;
    if (inside && threadIdx.x < 32) enter_segments(own, in, from);
    __syncthreads();
    const U32 segment = low / kSegment + threadIdx.x, at = segment * kSegment;
    const bool has_segment = ours && threadIdx.x < S::kIn / kSegment && at < in.end;
    const U32 entry = has_segment && inside ? own.before[segment] : kNoEntry;
    U32 all;
    const U32 before = sum_before(own, entry == kNoEntry ? 0 : produced(in, at + entry, at + kSegment), all);
    broadcast_to_blocks(&shared.made[rank], all);
    cluster::sync();
    U32 before_window = out;
    for (U32 i = 0; i < blocks; ++i) {
      if (i < rank) before_window += shared.made[i];
      out += shared.made[i];
    }
    for (U32 i = 0; has_segment && i < blocks; ++i) {
      *cluster::of_block(&own.before[segment], i) = before_entry<S>(before_window + before, entry);
    }
    p = shared.enters[blocks];
    cluster::sync();
    if (p == kAtBad || out > dst_bytes) {
      const U32 looked_at = first / kSegment + blocks * (S::kIn / kSegment);
      return known_before(own, looked_at < segments ? looked_at : segments, dst_bytes);
    }
    if (p == kAtEnd) {
      for (U32 i = first / kSegment + blocks * (S::kIn / kSegment) + threadIdx.x; i < segments; i += S::kThreads) {
        own.before[i] = before_entry<S>(out, kNoEntry);
      }
      break;
    }
  }
  if (p != kAtEnd || out != dst_bytes) return known_before(own, segments, dst_bytes);
  if (threadIdx.x == 0) own.before[segments] = before_entry<S>(out, kNoEntry);
  __syncthreads();
  return {segments, out, true};
}

// Turns cells that refer outside the window into bytes, which are available by now. Only such cells need this.
template <class S>
__device__ __forceinline__ void close_cells(Shared<S>& shared, const Window& window) {
  constexpr U32 kLoads = 8;
  const U32 bytes = window.end - window.begin;
  for (U32 first = threadIdx.x; first < bytes; first += kLoads * S::kThreads) {
    U32 cell[kLoads], value[kLoads];
    for (U32 k = 0; k < kLoads; ++k) {
      const U32 i = first + k * S::kThreads;
      cell[k] = i < bytes ? shared.cell[i] : 0;
    }
    for (U32 k = 0; k < kLoads; ++k) value[k] = cell[k] < kOutside ? 0 : __ldcg(&window.dst[cell[k] - kOutside]);
    for (U32 k = 0; k < kLoads; ++k) {
      if (cell[k] >= kOutside) shared.cell[first + k * S::kThreads] = kLiteral | value[k];
    }
  }
  __syncthreads();
}

// By all threads of the cluster. Records in the stream what has been decoded.
template <class S>
__device__ inline void decode_together(ClusterShared<S>& shared, Lz4Stream& stream) {
  Shared<S>& own = shared.own;
  const U32 rank = cluster::rank(), blocks = cluster::blocks();
  Input in = input_of(stream, own.in, own.lead, S::kMax);
  const Known known = discover_together(shared, in, stream.dst_bytes);
  U32 parity = 0;
  for (U32 first = 0; first < known.bytes; first += blocks * S::kOut, parity ^= 1) {
    const U32 begin = first + rank * S::kOut;
    const bool ours = begin < known.bytes;
    const Window window{begin, ours && known.bytes - begin < S::kOut ? known.bytes : begin + S::kOut, stream.dst};
    const bool right = !ours || fill_window(own, in, window, known.segments, stream.dst_bytes);
    broadcast_to_blocks(&shared.failed[parity][rank], right ? 0u : 1u);
    for (U32 turn = 0; turn < blocks; ++turn) {
      cluster::sync();
      if (shared.failed[parity][turn] != 0) return leave_rest(own, in, known, first + turn * S::kOut, stream);
      if (rank != turn || !ours) continue;
      close_cells(own, window);
      store(own, window, stream.dst);
    }
  }
  if (!known.all) return leave_rest(own, in, known, known.bytes, stream);
  stream.kind = Lz4Kind::kNone;
}

// Kernel body: streams that it decodes become kNone in the list. Does nothing for batches of more than `turns` streams
// per cluster.
template <class S>
__device__ inline void decode_cluster_body(Lz4Stream* streams, U32 count, U32 turns, const std::uint64_t* outcomes,
                                           ClusterShared<S>& shared) {
  const U32 rank = cluster::rank(), blocks = cluster::blocks();
  const U32 clusters = gridDim.x / blocks, own = blockIdx.x / blocks;
  turns = turns < kMaxTurns ? turns : kMaxTurns;
  // The order alternates, so that clusters with the longest streams of one turn get the shortest of the next.
  const auto number_in = [&](U32 turn) { return turn * clusters + (turn % 2 == 0 ? own : clusters - 1 - own); };
  const U32 found = number_longest_first(shared.own, streams, count, clusters * turns, [&](U32 number, U32 i) {
    const U32 turn = number / clusters;
    if (turn < kMaxTurns && number == number_in(turn)) shared.mine[turn] = i;
  });
  if (found > clusters * turns) return;
  cluster::sync();  // all blocks have started, so their memory can be written
  for (U32 turn = 0; turn < turns && number_in(turn) < found; ++turn) {
    const U32 i = shared.mine[turn];
    Lz4Stream stream = streams[i];
    if (rank == 0) {
      const bool good =
          *static_cast<const volatile std::uint64_t*>(&outcomes[stream.chunk]) == device::DecodeOutcome::kOk;
      broadcast_to_blocks(&shared.good[turn % 2], good && stream.kind == Lz4Kind::kBlock ? 1u : 0u);
    }
    cluster::sync();
    if (shared.good[turn % 2] == 0) continue;
    decode_together(shared, stream);
    cluster::sync();  // all have read the stream and `failed`
    if (rank == 0 && threadIdx.x == 0) streams[i] = stream;
  }
  cluster::sync();  // no block reads this block's memory any more
}

}  // namespace small
}  // namespace headrace::codec::gpu
