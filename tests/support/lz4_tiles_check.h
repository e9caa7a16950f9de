// Runs the device code of the tile decoder on the CPU. Included by a test and a fuzz target, once per program.
#pragma once

// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "codecs/lz4/lz4_choice_device.cuh"
#include "codecs/lz4/lz4_tiles_layout.h"
#include "tests/support/lz4_blocks.h"

namespace headrace::test {

// A shape so small that few bytes cross many lanes, segments, windows, tiles, sections and slices.
using SmallTiles = codec::gpu::tiles::TilesConfig<codec::gpu::tiles::GraphShape<16, 24, 8, 32>, 64, 32, 8, 32, 1>;
// The configuration of lz4_tiles.cu, except for the threads of a block that walks a stream.
using LargeTiles =
    codec::gpu::tiles::TilesConfig<codec::gpu::tiles::GraphShape<128, 120, 8, 1024>, 16384, 512, 2048, 1024, 1>;

struct TilesRun {
  unsigned blocks = 3;            // thread blocks of the tile kernel: sections in parallel
  std::uint64_t slice_bytes = 0;  // 0: everything in one slice
  bool join = true;               // whether sections with many open references are joined
};

// Whether the last decode_by_tiles() had to walk segments that it had skipped.
inline bool tiles_walked_again = false;

// Makes the launches of lz4_tiles.cu in order.
template <class Config>
void decode_by_tiles(std::span<const codec::gpu::Lz4Stream> streams, std::span<std::uint64_t> outcomes,
                     const TilesRun& run, unsigned stage = 0) {
  using namespace codec::gpu::tiles;
  using Graph = typename Config::Graph;
  codec::gpu::Lz4Limits limits;
  limits.streams = static_cast<std::uint32_t>(streams.size());
  for (const auto& s : streams) {
    limits.src_bytes += s.src_bytes;
    limits.dst_bytes += s.dst_bytes;
  }
  const std::uint64_t slice_bytes = run.slice_bytes != 0 ? run.slice_bytes : limits.dst_bytes + Config::kTileBytes;
  const TilesLayout size = lay_out<Config>(limits, nullptr, slice_bytes);
  // A heap block of the exact size, filled with garbage: a sanitizer detects overruns, and nothing may rely on zeros.
  const std::unique_ptr<std::byte[]> memory(new std::byte[size.bytes + 256]);
  std::memset(memory.get(), 0xCD, size.bytes + 256);
  auto* const scratch =
      reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.get()) + 255) / 256 * 256);
  const TilesLayout layout = lay_out<Config>(limits, scratch, slice_bytes);
  const GraphArrays& g = layout.graph;
  if (layout.most.slices == 0) return;

  static PlanShared plan_shared;
  static SegmentShared<Graph> segment_shared;
  static ListShared<Graph> list_shared;
  static JoinShared<Graph> join_shared[Graph::kThreads / 32];
  static auto follow_shared = std::make_unique<typename Config::Follow>();
  static auto tile_shared = std::make_unique<typename Config::Tile>();
  using testing::gpu::launch;
  launch(1, Graph::kThreads, [&] {
    plan_streams<Graph, Config::kTileBytes>(plan_shared, streams.data(), limits.streams,
                                            TileLeast{0, Config::kSmallest, Config::kSmallest}, layout.most, g,
                                            run.blocks, nullptr);
  });
  launch(2, Graph::kThreads, [&] { begin_segments<Graph>(g, layout.slice.slot_stream); });
  launch(2, Graph::kThreads, [&] { skip_literals<Graph>(g); });
  for (const bool again : {false, true}) {
    launch(2, Graph::kThreads, [&] {
      for (U32 i = blockIdx.x; i < g.plan->segments; i += gridDim.x) {
        walk_segment<Graph>(segment_shared, g, i, again);
        __syncthreads();
      }
    });
    launch(2, Graph::kThreads, [&] { join_segments<Graph>(join_shared, g, again); });
    launch(2, Config::Follow::kThreads, [&] {
      for (U32 i = blockIdx.x; i < g.plan->streams; i += gridDim.x) {
        follow_paths<typename Config::Follow, Graph>(*follow_shared, g, i, outcomes.data(), stage, again);
        __syncthreads();
      }
    });
  }
  launch(2, Graph::kThreads, [&] {
    for (U32 i = blockIdx.x; i < g.plan->segments; i += gridDim.x) {
      list_parts<Graph>(list_shared, g, i, outcomes.data());
      __syncthreads();
    }
  });
  tiles_walked_again = g.plan->retry != 0;
  launch(2, Graph::kThreads, [&] { index_tiles<Graph, Config::kTileBytes>(g, outcomes.data()); });
  const Lz4Sequences<Graph> sequences{g, outcomes.data(), stage};
  TileArrays slice = layout.slice;
  static BoundsShared bounds_shared;
  launch(layout.most.slices, Graph::kThreads, [&] { bound_sections(bounds_shared, g, slice, blockIdx.x, run.blocks); });
  for (slice.slice = 0; slice.slice < layout.most.slices; ++slice.slice) {
    launch(run.blocks, Config::Tile::kThreads,
           [&] { decode_tiles(*tile_shared, *g.plan, g.streams, slice, sequences, outcomes.data()); });
    launch(2, Graph::kThreads, [&] {
      follow_open_bytes<Config::kTileBytes, Config::Tile::kThreads>(*g.plan, g.streams, slice, run.join,
                                                                    outcomes.data());
    });
    for (U32 level = 0; run.join && run.blocks > 1u << level; ++level) {
      launch(2, Graph::kThreads,
             [&] { join_sections<Config::kTileBytes>(*g.plan, g.streams, slice, level, outcomes.data()); });
    }
  }
}

// Compares with liblz4, with the given numbers of sections and slices.
class TilesBeside : public Lz4Beside {
 public:
  using Lz4Beside::Lz4Beside;
  template <class Config>
  const char* check(std::span<const std::byte> block, std::size_t plain_bytes, const TilesRun& run, Flush flush) {
    return Lz4Beside::check(block, plain_bytes, flush, [&](auto streams, auto outcomes, unsigned stage) {
      decode_by_tiles<Config>(streams, outcomes, run, stage);
    });
  }
};

}  // namespace headrace::test
