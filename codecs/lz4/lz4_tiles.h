// LZ4 streams decoded with all of the device at work on each: for few and large ones. See lz4_tiles_device.cuh.
#pragma once

#include "lz4_device.cuh"

namespace headrace::codec::gpu {

// Streams of fewer decoded bytes never go by tiles.
inline constexpr std::uint32_t kLz4TilesSmallest = 64u << 10;

// Batches of more streams fill the device with a warp or less each.
inline constexpr std::uint32_t kLz4TilesMostStreams = 4096;

// What the two decoders cost, in nanoseconds a byte: measured on an H200 by lz4_tiles_bench --crossings. Only how they
// compare with each other matters. See lz4_choice_device.cuh.
struct Lz4TilesChoice {
  // An encoded byte of the longest stream, if nearly all of it are matches, or literals.
  float in_order_match_ns = 80, in_order_literal_ns = 17;
  float in_order_src_ns = 1 / 160.f, in_order_dst_ns = 1 / 500.f;  // of all streams together
  float tiles_ns = 320'000;                                        // whatever the bytes
  float tiles_src_ns = 1 / 110.f, tiles_dst_ns = 1 / 260.f;
  std::uint32_t least_src = 0;      // encoded bytes from which a stream goes by tiles; 0: by cost
  std::uint32_t stored = 1u << 20;  // bytes of a stored one that does
  std::uint32_t from = 0;           // decoded bytes: smaller streams are left alone
};

// Device memory that enqueue_lz4_tiles() needs: as much as the streams decode to, or about 40 MiB if that is more; none
// for more than kLz4TilesMostStreams. lz4_scratch_device.cuh.
inline std::uint64_t lz4_tiles_scratch_bytes(const Lz4Limits& limits) noexcept;
// Queues the launches; a cudaError_t. Which streams go by tiles is decided on the device, where their number is known;
// the others go in order.
int enqueue_lz4_tiles(const Lz4Job& job, device::gpu::NativeStream stream, const Lz4TilesChoice& choice = {}) noexcept;
// Streams of more than kLz4Small decoded bytes alone, while others may be at work on the rest of the list. Those that
// go by tiles are crossed out; nothing goes in order.
int enqueue_lz4_large(const Lz4Job& job, device::gpu::Launcher& launch) noexcept;

}  // namespace headrace::codec::gpu
