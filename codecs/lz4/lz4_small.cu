#include <cuda_runtime.h>

#include <algorithm>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz4_small_device.cuh"

namespace headrace::codec::gpu {
namespace {

using device::gpu::Launcher;
using device::gpu::wait_for_earlier;

using Shape = small::Shape<kLz4Small, 16u << 10, 24u << 10, 512>;
constexpr unsigned kBlocks = 2;  // on a multiprocessor at once

__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    small_kernel(Lz4Stream* streams, const std::uint32_t* count, std::uint32_t most, std::uint32_t few,
                 const std::uint64_t* outcomes) {
  wait_for_earlier();
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t n = *count < most ? *count : most;
  if (n <= few) small::decode_small_body(streams, n, outcomes, *reinterpret_cast<small::Shared<Shape>*>(memory));
}

}  // namespace

int enqueue_lz4_small(const Lz4Job& job, device::gpu::NativeStream stream, bool& all) noexcept {
  int device = 0, room = 0;
  Launcher launch(stream);
  launch.check(cudaGetDevice(&device));
  launch.check(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  all = false;
  constexpr std::size_t kShared = sizeof(small::Shared<Shape>);
  if (launch.error() != cudaSuccess || static_cast<std::size_t>(room) < kShared || job.limits.streams == 0) {
    return launch.error();
  }
  launch.check(cudaFuncSetAttribute(reinterpret_cast<const void*>(&small_kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  const auto multiprocessors = static_cast<std::uint32_t>(std::max(job.multiprocessors, 1));
  const std::uint32_t few = multiprocessors * kLz4SmallFew;
  launch(small_kernel, std::min(job.limits.streams, multiprocessors * kBlocks), Shape::kThreads, kShared, job.streams,
         job.count, job.limits.streams, few, job.outcomes);
  all = job.limits.streams <= few && job.limits.largest_dst_bytes <= kLz4Small;
  return launch.error();
}

}  // namespace headrace::codec::gpu
