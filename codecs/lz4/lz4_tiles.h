// LZ4 streams decoded with all of the device at work on each: for few and large ones. See lz4_tiles_device.cuh.
#pragma once

#include "lz4_device.cuh"

namespace headrace::codec::gpu {

// Streams of at least this many decoded bytes go by tiles; smaller ones are left alone.
inline constexpr std::uint32_t kLz4TilesSmallest = 64u << 10;

// Device memory that enqueue_lz4_tiles() needs: at most as much as the streams decode to, or 64 MiB for less.
std::uint64_t lz4_tiles_scratch_bytes(const Lz4Limits& limits) noexcept;
// Queues the launches; a cudaError_t. Streams that are too small, or too large for liblz4, are left alone.
int enqueue_lz4_tiles(const Lz4Job& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu
