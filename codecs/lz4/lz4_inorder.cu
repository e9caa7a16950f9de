#include <cuda_runtime.h>

#include <algorithm>

#include "lz4_inorder_device.cuh"

namespace headrace::codec::gpu {
namespace {

constexpr unsigned kThreads = 128;

template <unsigned kLanes>
__global__ void __launch_bounds__(kThreads, 8)
    decode_in_order(const Lz4Stream* streams, const std::uint32_t* count, std::uint32_t most, std::uint64_t* outcomes,
                    unsigned stage) {
  __shared__ __align__(128) unsigned char shared[kLz4InorderSharedBytes<kLanes, kThreads>];
  const std::uint32_t n = *count;
  lz4_inorder_body<kLanes>(streams, n < most ? n : most, outcomes, stage, shared);
}

template <unsigned kLanes>
int launch(const Lz4Job& job, device::gpu::NativeStream stream) {
  constexpr unsigned kMostBlocks = 1u << 20;
  // Whole warps of 16 streams a group, as the body deals them out.
  const std::uint64_t groups = 32 / kLanes, warps = (job.limits.streams / groups / 16 + 1) * 16;
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>((warps + kThreads / 32 - 1) / (kThreads / 32),
                                                                    kMostBlocks));
  const Lz4Stream* streams = job.streams;
  const std::uint32_t* count = job.count;
  std::uint32_t most = job.limits.streams;
  std::uint64_t* outcomes = job.outcomes;
  unsigned stage = job.stage;
  void* arguments[] = {&streams, &count, &most, &outcomes, &stage};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&decode_in_order<kLanes>), dim3(blocks), dim3(kThreads),
                          arguments, 0, stream);
}

}  // namespace

int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream, unsigned lanes) noexcept {
  if (job.limits.streams == 0) return cudaSuccess;
  switch (lanes) {
    case 4:
      return launch<4>(job, stream);
    case 8:
      return launch<8>(job, stream);
    case 16:
      return launch<16>(job, stream);
    default:
      return launch<32>(job, stream);
  }
}

int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream) noexcept {
  const std::uint32_t likely = job.limits.likely_streams != 0 ? job.limits.likely_streams : job.limits.streams;
  return enqueue_lz4_inorder(job, stream, lz4_inorder_lanes(likely, job.multiprocessors));
}

}  // namespace headrace::codec::gpu
