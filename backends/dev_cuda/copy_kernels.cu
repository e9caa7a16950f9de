#include <algorithm>

#include "copy_kernels.cuh"
#include "copy_kernels.h"

namespace headrace::device::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void __launch_bounds__(kThreads) move_pieces(const PieceItem* items, unsigned count) {
  move_pieces_body(items, count);
}

__global__ void __launch_bounds__(kThreads)
    assemble(const BoxItem* items, const unsigned* first_unit, unsigned count, unsigned units, const Byte* pattern) {
  __shared__ __align__(16) Byte tile[kTileBytes];
  assemble_body(items, first_unit, count, units, pattern, tile);
}

}  // namespace

cudaError_t probe_kernels() noexcept {
  cudaFuncAttributes attributes;
  if (cudaError_t error = cudaFuncGetAttributes(&attributes, move_pieces); error != cudaSuccess) return error;
  return cudaFuncGetAttributes(&attributes, assemble);
}

// The launch functions return this launch's own error; cudaGetLastError() could return another caller's.
cudaError_t launch_move_pieces(const PieceItem* items, std::uint32_t count, int multiprocessors,
                               cudaStream_t stream) noexcept {
  // Two blocks per multiprocessor keep megabytes in flight, far more than the bus latency requires, and leave room for
  // decoders on other streams.
  const unsigned warps = kThreads / 32;
  const unsigned blocks = std::min((count + warps - 1) / warps, 2 * static_cast<unsigned>(multiprocessors));
  unsigned n = count;
  void* arguments[] = {&items, &n};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&move_pieces), dim3(blocks), dim3(kThreads), arguments, 0,
                          stream);
}

cudaError_t launch_assemble(const BoxItem* items, const std::uint32_t* first_unit, std::uint32_t count,
                            std::uint32_t units, const std::byte* pattern, int multiprocessors,
                            cudaStream_t stream) noexcept {
  const unsigned blocks = std::min(units, 8 * static_cast<unsigned>(multiprocessors));
  unsigned n = count, total = units;
  void* arguments[] = {&items, &first_unit, &n, &total, &pattern};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&assemble), dim3(blocks), dim3(kThreads), arguments, 0, stream);
}

}  // namespace headrace::device::cuda
