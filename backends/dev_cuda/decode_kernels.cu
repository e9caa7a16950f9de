#include "decode_kernels.h"

namespace headrace::device::cuda {
namespace {

__global__ void advance_kernel(gpu::Chunk* chunks, const std::uint64_t* outcomes, std::uint32_t count,
                               unsigned char* next, std::uint64_t stride, unsigned char* const* final,
                               std::uint64_t capacity) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  gpu::Chunk& chunk = chunks[i];
  chunk.src = chunk.dst;
  chunk.src_bytes = outcomes[i] == DecodeOutcome::kOk ? chunk.dst_bytes : 0;
  chunk.dst = final != nullptr ? final[i] : next + i * stride;
  chunk.dst_bytes = capacity;
}

}  // namespace

cudaError_t launch_advance(gpu::Chunk* chunks, const std::uint64_t* outcomes, std::uint32_t count, unsigned char* next,
                           std::uint64_t stride, unsigned char* const* final, std::uint64_t capacity,
                           cudaStream_t stream) noexcept {
  constexpr unsigned kThreads = 128;
  advance_kernel<<<(count + kThreads - 1) / kThreads, kThreads, 0, stream>>>(chunks, outcomes, count, next, stride,
                                                                             final, capacity);
  return cudaGetLastError();
}

}  // namespace headrace::device::cuda
