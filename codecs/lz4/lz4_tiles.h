// LZ4 streams decoded with all of the device at work on each: for few and large ones. See lz4_tiles_device.cuh.
#pragma once

#include "lz4_device.cuh"

namespace headrace::codec::gpu {

// Streams of fewer decoded bytes never go by tiles.
inline constexpr std::uint32_t kLz4TilesSmallest = 64u << 10;

// Which streams go by tiles. In order, a stream's time is that of its encoded bytes, one step after the other, as long
// as there are too few streams to fill the device: then the long ones set the time of the batch, and tiles take those.
struct Lz4TilesChoice {
  std::uint32_t few = 512, many = 2048;                       // streams of the batch
  std::uint32_t with_few = 32u << 10, with_many = 64u << 10;  // encoded bytes of a stream that goes by tiles, at least
  std::uint32_t stored = 1u << 20;                            // bytes of a stored one
};

// Device memory that enqueue_lz4_tiles() needs: as much as the streams decode to, or about 40 MiB if that is more.
// Grows with each of the limits.
std::uint64_t lz4_tiles_scratch_bytes(const Lz4Limits& limits) noexcept;
// Queues the launches; a cudaError_t. Which streams go by tiles is decided on the device, where their number is known;
// the others go in order.
int enqueue_lz4_tiles(const Lz4Job& job, device::gpu::NativeStream stream, const Lz4TilesChoice& choice = {}) noexcept;

}  // namespace headrace::codec::gpu
