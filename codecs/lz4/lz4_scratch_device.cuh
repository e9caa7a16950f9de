// Scratch size of LZ4 streams and of the stage of that name: depends on the limits alone, so that device and tests
// agree.
#pragma once

#include <algorithm>

#include "lz4_tiles.h"
#include "lz4_tiles_layout.h"

namespace headrace::codec::gpu {

using Lz4TilesConfig =
    tiles::TilesConfig<tiles::GraphShape<128, 120, 8, 1024>, 16384, 512, 2048, 1024, kLz4TilesSmallest>;

inline constexpr std::uint64_t kLz4LeastSlice = std::uint64_t{16}
                                                << 20;  // decoded bytes; enough for all multiprocessors

inline bool lz4_may_use_tiles(const Lz4Limits& limits) {
  return limits.largest_dst_bytes >= kLz4TilesSmallest && limits.min_streams <= kLz4TilesMostStreams;
}

inline std::uint64_t lz4_tiles_scratch_bytes(const Lz4Limits& limits) noexcept {
  if (!lz4_may_use_tiles(limits)) return 0;
  return std::max(tiles::lay_out<Lz4TilesConfig>(limits, nullptr, kLz4LeastSlice).bytes, limits.dst_bytes);
}
// Scratch that one batch within these limits needs. Lz4TilesChoice decides which of the two decoders takes a stream.
inline std::uint64_t lz4_scratch_bytes(const Lz4Limits& limits) noexcept { return lz4_tiles_scratch_bytes(limits); }

inline Lz4Limits lz4_limits_of(const device::gpu::Limits& limits) {
  Lz4Limits out;
  out.streams = out.min_streams = limits.chunks;
  out.src_bytes = limits.src_bytes;
  out.dst_bytes = limits.dst_bytes;
  out.largest_src_bytes = limits.largest_src_bytes;
  out.largest_dst_bytes = limits.largest_dst_bytes;
  return out;
}

inline std::uint64_t lz4_stage_scratch_bytes(const device::gpu::Limits& limits) {
  return device::gpu::max_scratch(limits, kLz4TilesMostStreams, [](const device::gpu::Limits& batch) {
    return device::gpu::StreamList<Lz4Stream>::end(batch.chunks) + lz4_scratch_bytes(lz4_limits_of(batch));
  });
}

}  // namespace headrace::codec::gpu
