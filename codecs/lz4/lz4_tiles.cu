#include <cuda_runtime.h>

#include <algorithm>

#include "lz4_choice_device.cuh"
#include "lz4_tiles.h"
#include "lz4_tiles_layout.h"

namespace headrace::codec::gpu {
namespace {

using namespace tiles;

using Graph = GraphShape<128, 120, 8, 1024>;
using Config = TilesConfig<Graph, 16384, 512, 2048, 1024, kLz4TilesSmallest>;
constexpr unsigned kPlanThreads = 1024, kWarpThreads = 256;

__global__ void __launch_bounds__(kPlanThreads)
    plan_kernel(const Lz4Stream* streams, const std::uint32_t* count, U32 most_streams, Lz4TilesChoice choice,
                TilePlan most, GraphArrays g, Lz4Stream* rest) {
  __shared__ PlanShared shared;
  __shared__ SizeClasses classes;
  const U32 n = *count < most_streams ? *count : most_streams;
  const TileLeast least = choose_streams(classes, streams, n, kLz4TilesSmallest, choice);
  plan_streams<Graph, Config::kTileBytes>(shared, streams, n, least, most, g, rest);
}

__global__ void __launch_bounds__(kWarpThreads) begin_kernel(GraphArrays g, U32* tile_stream) {
  begin_segments<Graph>(g, tile_stream);
}

__global__ void __launch_bounds__(Graph::kThreads) walk_kernel(GraphArrays g) {
  __shared__ SegmentShared<Graph> shared;
  const U32 segments = g.plan->segments;
  for (U32 i = blockIdx.x; i < segments; i += gridDim.x) {
    walk_segment<Graph>(shared, g, i);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kWarpThreads) join_kernel(GraphArrays g) {
  __shared__ JoinShared<Graph> shared[kWarpThreads / 32];
  join_segments<Graph>(shared, g);
}

__global__ void __launch_bounds__(Config::Follow::kThreads)
    follow_kernel(GraphArrays g, std::uint64_t* outcomes, unsigned stage) {
  __shared__ typename Config::Follow shared;
  const U32 streams = g.plan->streams;
  for (U32 i = blockIdx.x; i < streams; i += gridDim.x) {
    follow_paths<Config::Follow, Graph>(shared, g, i, outcomes, stage);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(Graph::kThreads) list_kernel(GraphArrays g, const std::uint64_t* outcomes) {
  __shared__ ListShared<Graph> shared;
  const U32 segments = g.plan->segments;
  for (U32 i = blockIdx.x; i < segments; i += gridDim.x) {
    list_parts<Graph>(shared, g, i, outcomes);
    __syncthreads();
  }
}

constexpr unsigned kTileBlocks = 3;  // on a multiprocessor at once

__global__ void __launch_bounds__(Config::Tile::kThreads, kTileBlocks)
    tile_kernel(TileArrays a, Lz4Sequences<Graph> sequences) {
  extern __shared__ __align__(16) unsigned char memory[];
  decode_tiles(*reinterpret_cast<Config::Tile*>(memory), *sequences.g.plan, sequences.g.streams, a, sequences,
               sequences.outcomes);
}

__global__ void __launch_bounds__(kWarpThreads)
    close_kernel(const TilePlan* plan, const TileStream* streams, TileArrays a, const std::uint64_t* outcomes) {
  close_open_bytes<Config::kTileBytes>(*plan, streams, a, outcomes);
}

constexpr std::uint64_t kLeastSlice = std::uint64_t{16} << 20;  // decoded bytes; enough for all multiprocessors

bool may_use_tiles(const Lz4Limits& limits) {
  return limits.largest_dst_bytes >= kLz4TilesSmallest && limits.least_streams <= kLz4TilesMostStreams;
}

// With the largest slices that fit.
TilesLayout fit(const Lz4Limits& limits, std::byte* scratch) {
  const std::uint64_t room = lz4_tiles_scratch_bytes(limits);
  const std::uint64_t fixed = lay_out<Config>(limits, nullptr, 1).bytes;
  std::uint64_t slice = std::max(kLeastSlice, room > fixed ? (room - fixed) * 46 / 100 : 0);
  slice = slice / Config::kTileBytes * Config::kTileBytes;
  while (slice > kLeastSlice && lay_out<Config>(limits, nullptr, slice).bytes > room) slice -= Config::kTileBytes;
  return lay_out<Config>(limits, scratch, slice);
}

class Launcher {
 public:
  explicit Launcher(cudaStream_t stream) : stream_(stream) {}

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), std::uint64_t blocks, unsigned threads, std::size_t shared,
                  Arguments... arguments) {
    if (error_ != cudaSuccess) return;
    const auto grid = static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, 1u << 30));
    kernel<<<grid, threads, shared, stream_>>>(arguments...);
    error_ = cudaGetLastError();
  }
  void check(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  int error() const { return error_; }

 private:
  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

std::uint64_t lz4_tiles_scratch_bytes(const Lz4Limits& limits) noexcept {
  if (!may_use_tiles(limits)) return 0;
  return std::max(lay_out<Config>(limits, nullptr, kLeastSlice).bytes, limits.dst_bytes);
}

int enqueue_lz4_tiles(const Lz4Job& job, device::gpu::NativeStream stream, const Lz4TilesChoice& choice) noexcept {
  TilesLayout layout;
  if (may_use_tiles(job.limits)) layout = fit(job.limits, job.scratch);
  if (layout.slices == 0) return enqueue_lz4_inorder(job, stream);
  if (layout.bytes > job.scratch_bytes) return cudaErrorInvalidValue;
  const GraphArrays& g = layout.graph;
  const auto sms = static_cast<std::uint64_t>(std::max(job.multiprocessors, 1));
  const std::uint64_t segments = layout.most.segments;
  Launcher launch(stream);
  launch.check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&tile_kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Config::Tile)));
  launch(plan_kernel, 1, kPlanThreads, 0, job.streams, job.count, job.limits.streams, choice, layout.most, g,
         layout.rest);
  launch(begin_kernel, std::min(segments / 8 + 1, sms * 8), kWarpThreads, 0, g, layout.slice.tile_stream);
  launch(walk_kernel, segments, Graph::kThreads, 0, g);
  launch(join_kernel, std::min(segments * Graph::kPaths / 8 + 1, sms * 64), kWarpThreads, 0, g);
  launch(follow_kernel, std::min<std::uint64_t>(layout.most.streams, sms * 2), Config::Follow::kThreads, 0, g,
         job.outcomes, job.stage);
  launch(list_kernel, segments, Graph::kThreads, 0, g, job.outcomes);
  const Lz4Sequences<Graph> sequences{g, job.outcomes, job.stage};
  TileArrays slice = layout.slice;
  slice.tiles = layout.slice_tiles;
  for (U32 i = 0; i < layout.slices; ++i) {
    slice.first_tile = i * layout.slice_tiles;
    launch(tile_kernel, sms * kTileBlocks, Config::Tile::kThreads, sizeof(Config::Tile), slice, sequences);
    launch(close_kernel, sms * 8, kWarpThreads, 0, g.plan, g.streams, slice, job.outcomes);
  }
  if (launch.error() != cudaSuccess) return launch.error();
  Lz4Job rest = job;
  rest.streams = layout.rest;
  return enqueue_lz4_inorder(rest, stream);
}

}  // namespace headrace::codec::gpu
