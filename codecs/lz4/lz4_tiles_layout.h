// Offsets of the tile decoder's arrays in scratch, for any shape of it: shared by device and tests.
#pragma once

#include <algorithm>

#include "lz4_sequences_device.cuh"

namespace headrace::codec::gpu::tiles {

// All sizes as template parameters: tests use small ones, so that few bytes cross many boundaries.
template <class graph_shape, U32 tile_bytes, U32 tile_threads, U32 follow_window, U32 follow_threads, U32 smallest>
struct TilesConfig {
  using Graph = graph_shape;
  using Tile = TileShared<tile_bytes, tile_threads>;
  using Follow = FollowShared<graph_shape, follow_window, follow_threads>;
  static constexpr U32 kTileBytes = tile_bytes;
  static constexpr U32 kSmallest = smallest;  // minimum decoded size of a stream that goes by tiles
};

struct TilesLayout {
  TilePlan most{};            // upper bounds for streams, segments, tiles, slots and slices
  Lz4Stream* rest = nullptr;  // all streams; those that go by tiles become kNone
  GraphArrays graph{};
  TileArrays slice{};       // the caller sets `slice`
  std::uint64_t bytes = 0;  // total
};

// Pass scratch == nullptr to get the size alone. A slice of `slice_bytes` decoded bytes needs 2.25 times as much.
template <class Config>
TilesLayout lay_out(const Lz4Limits& limits, std::byte* scratch, std::uint64_t slice_bytes) {
  using Graph = typename Config::Graph;
  TilesLayout out;
  const std::uint64_t streams = std::min<std::uint64_t>(limits.streams, limits.dst_bytes / Config::kSmallest);
  const std::uint64_t segments = limits.src_bytes / Graph::kSegment + 2 * streams;
  const std::uint64_t tiles = limits.dst_bytes / Config::kTileBytes + streams;
  // Path and landing numbers have 32 bits.
  constexpr std::uint64_t kMax = (std::uint64_t{1} << 32) / 16 / Graph::kPaths;
  if (streams == 0 || segments > kMax || tiles > kMax) return out;
  const std::uint64_t slice_tiles =
      std::clamp<std::uint64_t>(slice_bytes / Config::kTileBytes, 1, std::min<std::uint64_t>(tiles, 1 << 15));
  out.most.streams = static_cast<U32>(streams);
  out.most.segments = static_cast<U32>(segments);
  out.most.tiles = static_cast<U32>(tiles);
  out.most.slots = static_cast<U32>(slice_tiles + streams);  // each stream may round up its share of a slice
  out.most.slices = static_cast<U32>((tiles + slice_tiles - 1) / slice_tiles);
  std::uint64_t at = 0;
  const auto take = [&]<class T>(T*& array, std::uint64_t count) {
    array = scratch == nullptr ? nullptr : reinterpret_cast<T*>(scratch + at);
    at += (count * sizeof(T) + 255) / 256 * 256;
  };
  take(out.rest, limits.streams);
  GraphArrays& g = out.graph;
  TileArrays& a = out.slice;
  const std::uint64_t slots = out.most.slots;
  take(g.plan, 1);
  take(g.streams, streams);
  take(g.segment_stream, segments);
  take(g.tile_stream, tiles);
  take(g.last_part, tiles);
  take(g.tile_cost, tiles);
  take(g.skip, segments);
  take(g.retry, streams);
  take(g.runs, segments * (Graph::kSegment / Graph::kRun));
  take(g.entry, segments);
  take(g.out, segments);
  take(g.part_at, segments * Graph::kAllParts);
  take(g.part_out, segments * Graph::kAllParts);
  take(a.slot_stream, slots);
  take(a.open_threads, out.most.slices);
  take(a.bounds, std::uint64_t{out.most.slices} * (kMaxTileBlocks + 1));
  // Token discovery and the production of bytes are never active together, so their arrays share memory.
  const std::uint64_t both = at;
  take(g.lane_entry, segments * Graph::kPaths * Graph::kLanes);
  take(g.lane_after, segments * Graph::kPaths * Graph::kLanes);
  take(g.path_count, segments);
  take(g.path_exit, segments * Graph::kPaths);
  take(g.edge, segments * Graph::kPaths);
  take(g.landing_count, segments * Graph::kPaths);
  take(g.edge_at, segments * Graph::kPaths);
  take(g.landings, segments * Graph::kPaths * Graph::kLandings);
  take(g.bytes, segments);
  const std::uint64_t found = at;
  at = both;
  take(a.sections, slots);
  take(a.masks, slots * (Config::kTileBytes / 32));
  take(a.masks_left, slots * (Config::kTileBytes / 32));
  take(a.links, slots * Config::kTileBytes);
  out.bytes = std::max(at, found);
  return out;
}

}  // namespace headrace::codec::gpu::tiles
