#include <cuda_runtime.h>

#include <algorithm>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz4_choice_device.cuh"
#include "lz4_scratch_device.cuh"

namespace headrace::codec::gpu {
namespace {

using namespace tiles;
using device::gpu::Launcher;
using device::gpu::wait_for_earlier;

using Config = Lz4TilesConfig;
using Graph = Config::Graph;
constexpr unsigned kPlanThreads = 1024, kWarpThreads = 256;

__global__ void __launch_bounds__(kPlanThreads)
    plan_kernel(const Lz4Stream* streams, const std::uint32_t* count, U32 max_streams, Lz4TilesChoice choice,
                TilePlan most, GraphArrays g, U32 blocks, Lz4Stream* rest) {
  wait_for_earlier();
  __shared__ PlanShared shared;
  __shared__ SizeClasses classes;
  const U32 n = *count < max_streams ? *count : max_streams;
  const TileLeast least = choose_streams(classes, streams, n, kLz4TilesSmallest, choice);
  plan_streams<Graph, Config::kTileBytes>(shared, streams, n, least, most, g, blocks, rest);
}

__global__ void __launch_bounds__(kWarpThreads) begin_kernel(GraphArrays g, U32* slot_stream) {
  wait_for_earlier();
  begin_segments<Graph>(g, slot_stream);
}

__global__ void __launch_bounds__(kWarpThreads) skip_kernel(GraphArrays g) {
  wait_for_earlier();
  skip_literals<Graph>(g);
}

__global__ void __launch_bounds__(Graph::kThreads) walk_kernel(GraphArrays g, bool again) {
  wait_for_earlier();
  __shared__ SegmentShared<Graph> shared;
  if (again && g.plan->retry == 0) return;
  const U32 segments = g.plan->segments;
  for (U32 i = blockIdx.x; i < segments; i += gridDim.x) {
    walk_segment<Graph>(shared, g, i, again);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kWarpThreads) join_kernel(GraphArrays g, bool again) {
  wait_for_earlier();
  __shared__ JoinShared<Graph> shared[kWarpThreads / 32];
  join_segments<Graph>(shared, g, again);
}

__global__ void __launch_bounds__(Config::Follow::kThreads)
    follow_kernel(GraphArrays g, std::uint64_t* outcomes, unsigned stage, bool again) {
  wait_for_earlier();
  __shared__ typename Config::Follow shared;
  if (again && g.plan->retry == 0) return;
  const U32 streams = g.plan->streams;
  for (U32 i = blockIdx.x; i < streams; i += gridDim.x) {
    follow_paths<Config::Follow, Graph>(shared, g, i, outcomes, stage, again);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(Graph::kThreads) list_kernel(GraphArrays g, const std::uint64_t* outcomes) {
  wait_for_earlier();
  __shared__ ListShared<Graph> shared;
  const U32 segments = g.plan->segments;
  for (U32 i = blockIdx.x; i < segments; i += gridDim.x) {
    list_parts<Graph>(shared, g, i, outcomes);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kWarpThreads) index_kernel(GraphArrays g, const std::uint64_t* outcomes) {
  wait_for_earlier();
  index_tiles<Graph, Config::kTileBytes>(g, outcomes);
}

__global__ void __launch_bounds__(kPlanThreads) bounds_kernel(GraphArrays g, TileArrays a, U32 blocks) {
  wait_for_earlier();
  __shared__ BoundsShared shared;
  bound_sections(shared, g, a, blockIdx.x, blocks);
}

constexpr unsigned kTileBlocks = 3;  // resident per multiprocessor

__global__ void __launch_bounds__(Config::Tile::kThreads, kTileBlocks)
    tile_kernel(TileArrays a, Lz4Sequences<Graph> sequences) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char memory[];
  decode_tiles(*reinterpret_cast<Config::Tile*>(memory), *sequences.g.plan, sequences.g.streams, a, sequences,
               sequences.outcomes);
}

__global__ void __launch_bounds__(kWarpThreads)
    open_kernel(TilePlan* plan, const TileStream* streams, TileArrays a, bool join, const std::uint64_t* outcomes) {
  wait_for_earlier();
  follow_open_bytes<Config::kTileBytes, Config::Tile::kThreads>(*plan, streams, a, join, outcomes);
}

__global__ void __launch_bounds__(kWarpThreads, 6)
    sections_kernel(const TilePlan* plan, const TileStream* streams, TileArrays a, U32 level,
                    const std::uint64_t* outcomes) {
  wait_for_earlier();
  join_sections<Config::kTileBytes>(*plan, streams, a, level, outcomes);
}

// With more streams, sections are not joined: most such batches take streams whole and have no sections, and the many
// empty launches would cost more than an occasional long chain.
constexpr std::uint32_t kMaxJoined = 128;

// Chooses the largest slices that fit.
TilesLayout fit(const Lz4Limits& limits, std::byte* scratch) {
  const std::uint64_t room = lz4_tiles_scratch_bytes(limits);
  const auto fits = [&](std::uint64_t tiles) {
    return lay_out<Config>(limits, nullptr, tiles * Config::kTileBytes).bytes <= room;
  };
  std::uint64_t tiles = kLz4LeastSlice / Config::kTileBytes, too_many = room / Config::kTileBytes + 1;
  while (too_many - tiles > 1) {
    const std::uint64_t middle = (tiles + too_many) / 2;
    (fits(middle) ? tiles : too_many) = middle;
  }
  return lay_out<Config>(limits, scratch, tiles * Config::kTileBytes);
}

// `rest` becomes the list without the streams that go by tiles. REQUIRES: layout.most.slices != 0.
void launch_tiles(const Lz4Job& job, Launcher& launch, const TilesLayout& layout, const Lz4TilesChoice& choice,
                  Lz4Stream* rest) {
  const GraphArrays& g = layout.graph;
  const auto sms = static_cast<std::uint64_t>(std::max(job.multiprocessors, 1));
  const std::uint64_t segments = layout.most.segments;
  const auto tile_blocks = static_cast<U32>(std::min<std::uint64_t>(sms * kTileBlocks, kMaxTileBlocks));
  launch.check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&tile_kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Config::Tile)));
  launch(plan_kernel, 1, kPlanThreads, 0, job.streams, job.count, job.limits.streams, choice, layout.most, g,
         tile_blocks, rest);
  launch(begin_kernel, std::min(segments / 8 + 1, sms * 8), kWarpThreads, 0, g, layout.slice.slot_stream);
  launch(skip_kernel, std::min(segments / 8 + 1, sms * 8), kWarpThreads, 0, g);
  for (const bool again : {false, true}) {
    launch(walk_kernel, again ? std::min(segments, sms * 8) : segments, Graph::kThreads, 0, g, again);
    launch(join_kernel, std::min(segments * Graph::kPaths / 8 + 1, sms * (again ? 8 : 64)), kWarpThreads, 0, g, again);
    launch(follow_kernel, std::min<std::uint64_t>(layout.most.streams, sms * 2), Config::Follow::kThreads, 0, g,
           job.outcomes, job.stage, again);
  }
  launch(list_kernel, segments, Graph::kThreads, 0, g, job.outcomes);
  launch(index_kernel, std::min<std::uint64_t>(layout.most.tiles / 8 + 1, sms * 8), kWarpThreads, 0, g, job.outcomes);
  const Lz4Sequences<Graph> sequences{g, job.outcomes, job.stage};
  const bool join = job.limits.streams <= kMaxJoined;
  TileArrays slice = layout.slice;
  launch(bounds_kernel, layout.most.slices, kPlanThreads, 0, g, slice, tile_blocks);
  for (slice.slice = 0; slice.slice < layout.most.slices; ++slice.slice) {
    launch(tile_kernel, tile_blocks, Config::Tile::kThreads, sizeof(Config::Tile), slice, sequences);
    launch(open_kernel, sms * 8, kWarpThreads, 0, g.plan, g.streams, slice, join, job.outcomes);
    for (U32 level = 0; join && tile_blocks > 1u << level; ++level) {
      launch(sections_kernel, sms * 8, kWarpThreads, 0, g.plan, g.streams, slice, level, job.outcomes);
    }
  }
}

}  // namespace

int enqueue_lz4_tiles(const Lz4Job& job, device::gpu::NativeStream stream, const Lz4TilesChoice& choice) noexcept {
  TilesLayout layout;
  if (lz4_may_use_tiles(job.limits)) layout = fit(job.limits, job.scratch);
  if (layout.most.slices == 0) return enqueue_lz4_inorder(job, stream);
  if (layout.bytes > job.scratch_bytes) return cudaErrorInvalidValue;
  Launcher launch(stream);
  launch_tiles(job, launch, layout, choice, layout.rest);
  if (launch.error() != cudaSuccess) return launch.error();
  Lz4Job rest = job;
  rest.streams = layout.rest;
  return enqueue_lz4_inorder(rest, stream);
}

int enqueue_lz4_large(const Lz4Job& job, device::gpu::Launcher& launch) noexcept {
  TilesLayout layout;
  if (lz4_may_use_tiles(job.limits)) layout = fit(job.limits, job.scratch);
  if (layout.most.slices == 0) return cudaSuccess;
  if (layout.bytes > job.scratch_bytes) return cudaErrorInvalidValue;
  Lz4TilesChoice choice;
  choice.from = kLz4Small + 1;
  launch_tiles(job, launch, layout, choice, job.streams);
  return launch.error();
}

}  // namespace headrace::codec::gpu
