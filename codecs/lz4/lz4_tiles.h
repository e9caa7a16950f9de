// LZ4 streams decoded by the whole device at once: for few, large streams. See lz4_tiles_device.cuh.
#pragma once

#include "lz4_device.cuh"

namespace headrace::codec::gpu {

// Streams with fewer decoded bytes never go by tiles.
inline constexpr std::uint32_t kLz4TilesSmallest = 64u << 10;

// Batches of more streams fill the device with at most a warp per stream.
inline constexpr std::uint32_t kLz4TilesMostStreams = 4096;

// Cost model of the two decoders, in nanoseconds per byte, measured on an H200 by lz4_tiles_bench --crossings. Only
// ratios between the values matter. See lz4_choice_device.cuh.
struct Lz4TilesChoice {
  // Per encoded byte of the longest stream, if nearly all of it is matches, or literals.
  float in_order_match_ns = 80, in_order_literal_ns = 17;
  float in_order_src_ns = 1 / 160.f, in_order_dst_ns = 1 / 500.f;  // over all streams together
  float tiles_ns = 320'000;                                        // fixed cost
  float tiles_src_ns = 1 / 110.f, tiles_dst_ns = 1 / 260.f;
  std::uint32_t min_src = 0;        // minimum encoded size of a stream to go by tiles; 0: decided by cost
  std::uint32_t stored = 1u << 20;  // minimum size of a stored stream to go by tiles
  std::uint32_t from = 0;           // decoded bytes: smaller streams are ignored
};

// Device memory that enqueue_lz4_tiles() needs: the streams' decoded size, or about 40 MiB if that is more; none for
// more than kLz4TilesMostStreams. Defined in lz4_scratch_device.cuh.
inline std::uint64_t lz4_tiles_scratch_bytes(const Lz4Limits& limits) noexcept;
// Queues the launches. Returns a cudaError_t. The device, which knows the number of streams, decides which streams go
// by tiles; the others are decoded in order.
int enqueue_lz4_tiles(const Lz4Job& job, device::gpu::NativeStream stream, const Lz4TilesChoice& choice = {}) noexcept;
// Handles only streams of more than kLz4Small decoded bytes; another launch may process the rest of the list
// concurrently. Streams that go by tiles become kNone in the list; this decodes none in order.
int enqueue_lz4_large(const Lz4Job& job, device::gpu::Launcher& launch) noexcept;

}  // namespace headrace::codec::gpu
