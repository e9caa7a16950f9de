#include <cuda_runtime.h>

#include <algorithm>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz4_inorder_device.cuh"

namespace headrace::codec::gpu {
namespace {

constexpr unsigned kThreads = 128;

// 64 registers per thread: room for 124 streams per multiprocessor at 8 lanes each. A single kernel for all widths
// would be simpler, but 6 % slower at 8 lanes.
template <unsigned kLanes>
__global__ void __launch_bounds__(kThreads, 8)
    decode_in_order(const Lz4Stream* streams, const std::uint32_t* count, std::uint32_t most, Lz4InorderChoice choice,
                    std::uint64_t* outcomes, unsigned stage) {
  device::gpu::wait_for_earlier();
  __shared__ __align__(128) unsigned char shared[kLz4InorderSharedBytes<kLanes, kThreads>];
  const std::uint32_t n = *count < most ? *count : most;
  if (lz4_inorder_lanes(n, choice) != kLanes) return;
  lz4_inorder_body<kLanes>(streams, n, outcomes, stage, shared);
}

// For at most `most` streams; the grid may be smaller, then each block takes several.
template <unsigned kLanes>
void decode(device::gpu::Launcher& launch, const Lz4Job& job, Lz4InorderChoice choice, std::uint64_t max_warps) {
  constexpr std::uint64_t kWarps = kThreads / 32, kMaxBlocks = 1u << 20;
  const std::uint64_t warps = std::min<std::uint64_t>(job.limits.streams / (32 / kLanes) + 16, max_warps);
  launch(decode_in_order<kLanes>, std::min((warps + kWarps - 1) / kWarps, kMaxBlocks), kThreads, 0, job.streams,
         job.count, job.limits.streams, choice, job.outcomes, job.stage);
}

}  // namespace

int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::Launcher& launch, unsigned lanes) noexcept {
  if (job.limits.streams == 0) return launch.error();
  Lz4InorderChoice choice;
  choice.lanes = lanes;
  choice.multiprocessors = static_cast<std::uint32_t>(std::max(job.multiprocessors, 1));
  choice.sparse = job.limits.src_bytes > job.limits.dst_bytes / 4 * 3;
  // One launch for each width that may be needed for any number of streams within the bound. The others end at once.
  const std::uint64_t few = std::uint64_t{choice.multiprocessors} * kLz4InorderFew;
  const bool open = lanes == 0;
  if (lanes == 8 || (open && job.limits.streams >= few)) decode<8>(launch, job, choice, ~std::uint64_t{0});
  if (lanes == 16 || (open && choice.sparse)) decode<16>(launch, job, choice, open ? few : ~std::uint64_t{0});
  if (lanes == 32 || open) decode<32>(launch, job, choice, open ? few : ~std::uint64_t{0});
  return launch.error();
}

int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream, unsigned lanes) noexcept {
  device::gpu::Launcher launch(stream);
  return enqueue_lz4_inorder(job, launch, lanes);
}

int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream) noexcept {
  return enqueue_lz4_inorder(job, stream, 0);
}

}  // namespace headrace::codec::gpu
