// Describes gzip and zlib chunks as a list of streams, one per chunk: device code without a CUDA header.
#pragma once

#include "codecs/lz77/lz77_stage_device.cuh"
#include "deflate_job_device.cuh"

namespace headrace::codec::gpu {

struct DeflateFormat {
  using Stream = DeflateStream;
  using Job = DeflateJob;
  static constexpr bool kEndsEarly = false;

  DeflateKind kind;

  __device__ Stream stream(const device::gpu::Chunk& chunk, std::uint32_t i) const {
    return {chunk.src, chunk.dst, chunk.src_bytes, chunk.dst_bytes, i, kind};
  }
  static std::uint64_t scratch_bytes(const lz77::StreamLimits& limits) { return deflate_scratch_bytes(limits); }
  static std::uint64_t index_bytes(std::uint64_t) { return 0; }
  static int enqueue(const Job& job, device::gpu::NativeStream stream) { return enqueue_deflate(job, stream); }
};

}  // namespace headrace::codec::gpu
