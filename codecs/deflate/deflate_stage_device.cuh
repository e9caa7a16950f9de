// gzip's and zlib's chunks as a list of streams, one a chunk: device code without a CUDA header.
#pragma once

#include "deflate_device.cuh"

namespace headrace::codec::gpu {

// A thread a chunk.
__device__ inline void list_deflate_streams_body(const device::gpu::Chunk* chunks, std::uint32_t count,
                                                 DeflateKind kind, DeflateStream* streams,
                                                 std::uint32_t* streams_count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) *streams_count = count;
  if (i >= count) return;
  streams[i] = {chunks[i].src, chunks[i].dst, chunks[i].src_bytes, chunks[i].dst_bytes, i, kind};
}

// Says how many bytes the chunks decoded to.
__device__ inline void tell_deflate_sizes_body(device::gpu::Chunk* chunks, std::uint32_t count,
                                               const DeflateStream* streams, const std::uint64_t* outcomes) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && outcomes[i] == device::DecodeOutcome::kOk) chunks[i].dst_bytes = streams[i].dst_bytes;
}

}  // namespace headrace::codec::gpu
