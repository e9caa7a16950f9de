#include <algorithm>

#include "convert_kernels.cuh"
#include "copy_kernels.h"

namespace headrace::device::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void __launch_bounds__(kThreads) assemble_converting(const BoxItem* items, const unsigned* first_unit,
                                                                unsigned count, unsigned units, Conversion conversion) {
  __shared__ std::uint64_t tile[kConvertTileWords];
  convert_body(items, first_unit, count, units, conversion, tile);
}

}  // namespace

cudaError_t launch_assemble_converting(const BoxItem* items, const std::uint32_t* first_unit, std::uint32_t count,
                                       std::uint32_t units, const Conversion& conversion, int multiprocessors,
                                       cudaStream_t stream) noexcept {
  const unsigned blocks = std::min(units, 8 * static_cast<unsigned>(multiprocessors));
  unsigned n = count, total = units;
  Conversion copy = conversion;
  void* arguments[] = {&items, &first_unit, &n, &total, &copy};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&assemble_converting), dim3(blocks), dim3(kThreads), arguments,
                          0, stream);
}

}  // namespace headrace::device::cuda
