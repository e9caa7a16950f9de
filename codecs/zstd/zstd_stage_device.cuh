// zstd chunks as a list of streams, one a chunk: device code without a CUDA header.
#pragma once

#include "codecs/lz77/lz77_stage_device.cuh"
#include "zstd_job_device.cuh"

namespace headrace::codec::gpu {

// A zstd stream is self-describing, so this needs no parameters.
struct ZstdFormat {
  using Stream = ZstdStream;
  using Job = ZstdJob;
  static constexpr bool kEndsEarly = true;

  __device__ Stream stream(const device::gpu::Chunk& chunk, std::uint32_t i) const {
    return {chunk.src, chunk.dst, chunk.src_bytes, chunk.dst_bytes, i, ZstdKind::kFrames, chunk.enough};
  }
  static std::uint64_t scratch_bytes(const lz77::StreamLimits& limits) { return zstd_scratch_bytes(limits); }
  static std::uint64_t index_bytes(std::uint64_t dst_bytes) { return zstd_index_bytes(dst_bytes); }
  static int enqueue(const Job& job, device::gpu::NativeStream stream) { return enqueue_zstd(job, stream); }
};

}  // namespace headrace::codec::gpu
