// Lowers and reads the outcomes of chunks, for the zstd and DEFLATE decoders. Device code without a CUDA header.
//
// `Job` has `std::uint64_t* outcomes` and `unsigned stage`.
#pragma once

#include "device/gpu_stage.h"
#include "lz77_device.cuh"

namespace headrace::codec::gpu::lz77 {

// `position` is in the stream. kHostOnly gets position 0, so it wins over every other finding.
template <class Job>
__device__ inline void give_up(const Job& job, std::uint32_t chunk, std::uint64_t position,
                               device::DecodeReason reason) {
  const std::uint64_t at = reason == device::DecodeReason::kHostOnly ? 0 : position;
  const std::uint64_t word =
      static_cast<std::uint64_t>(job.stage & 15) << 52 | at << 8 | static_cast<std::uint64_t>(reason);
  atomicMin(reinterpret_cast<unsigned long long*>(&job.outcomes[chunk]), static_cast<unsigned long long>(word));
}
template <class Job>
__device__ inline bool fine(const Job& job, std::uint32_t chunk) {
  return *static_cast<const volatile std::uint64_t*>(&job.outcomes[chunk]) == device::DecodeOutcome::kOk;
}
// Returns the same answer to all lanes, although other warps may lower the outcome at any time.
template <class Job>
__device__ inline bool fine_for_warp(const Job& job, std::uint32_t chunk) {
  return __shfl_sync(kAllLanes, fine(job, chunk) ? 1u : 0u, 0) != 0;
}
// Returns the same answer to all threads of a thread block.
template <class Job>
__device__ inline bool fine_for_block(const Job& job, std::uint32_t chunk) {
  return __syncthreads_or(fine(job, chunk) ? 0 : 1) == 0;
}

}  // namespace headrace::codec::gpu::lz77
