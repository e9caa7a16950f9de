// zstd chunks as a list of streams, one a chunk: device code without a CUDA header.
#pragma once

#include "zstd_job_device.cuh"

namespace headrace::codec::gpu {

inline ZstdLimits zstd_limits_of(const device::gpu::Limits& limits) {
  ZstdLimits out;
  out.streams = out.least_streams = limits.chunks;
  out.src_bytes = limits.src_bytes;
  out.dst_bytes = limits.dst_bytes;
  return out;
}

inline std::uint64_t zstd_stage_scratch_bytes(const device::gpu::Limits& limits) {
  return device::gpu::most_scratch(limits, lz77::TileLayout::kMostStreams, [](const device::gpu::Limits& batch) {
    return device::gpu::StreamList<ZstdStream>::end(batch.chunks) + zstd_scratch_bytes(zstd_limits_of(batch));
  });
}

// A thread a chunk.
__device__ inline void list_zstd_streams_body(const device::gpu::Chunk* chunks, std::uint32_t count,
                                              ZstdStream* streams, std::uint32_t* streams_count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *streams_count = count;
  if (i >= count) return;
  streams[i] = {chunks[i].src,     chunks[i].dst,   chunks[i].src_bytes, chunks[i].dst_bytes, i,
                ZstdKind::kFrames, chunks[i].enough};
}

// Says how many bytes the chunks decoded to.
__device__ inline void tell_zstd_sizes_body(device::gpu::Chunk* chunks, std::uint32_t count, const ZstdStream* streams,
                                            const std::uint64_t* outcomes) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && outcomes[i] == device::DecodeOutcome::kOk) chunks[i].dst_bytes = streams[i].dst_bytes;
}

}  // namespace headrace::codec::gpu
