// Launches that write the output of sequences, in the way that suits the number of streams.
//
// The exact number is known only on the device; the host knows bounds. A kernel that the number rules out ends at once.
#pragma once

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz77_inorder_device.cuh"
#include "lz77_tiles_device.cuh"
#include "lz77_windows_device.cuh"

namespace headrace::codec::gpu::lz77 {

inline constexpr unsigned kInorderThreads = 128, kInorderBlocks = 10, kPlanThreads = 512;
// Resident thread blocks of tiles per multiprocessor, and their threads.
inline constexpr unsigned kTileBlocks = 3, kTileThreads = 384;
// Resident thread blocks of windows per multiprocessor, and their threads.
inline constexpr unsigned kWindowBlocks = 3, kWindowThreads = 384, kLargeWindowThreads = 1024;
inline constexpr std::uint32_t kWindowBytes = 16384, kLargeWindowBytes = 32768;

inline Choice choose(std::uint64_t multiprocessors, const TileLayout& tiles) {
  const auto each = [&](std::uint64_t streams) { return static_cast<std::uint32_t>(multiprocessors * streams); };
  return {std::min(each(1) * 3 / 4, tiles.max_streams()), each(1), each(48)};
}

// lz77_device.cuh describes `Source`, there called `Job`; it is copied to the device.
template <class Source>
__global__ void __launch_bounds__(kInorderThreads, kInorderBlocks)
    write_inorder(Source source, Choice choice, Progress* progress) {
  device::gpu::wait_for_earlier();
  inorder_body(source, choice.max_by_windows, *progress);
}
template <unsigned kThreads, unsigned kBlocks, std::uint32_t kBytes, class Source>
__global__ void __launch_bounds__(kThreads, kBlocks)
    write_windows(Source source, std::uint32_t above, std::uint32_t most, Progress* progress) {
  extern __shared__ uint4 dynamic[];
  device::gpu::wait_for_earlier();
  windows_body<kThreads == kLargeWindowThreads ? 8 : 4>(source, above, most, *progress,
                                                        *reinterpret_cast<WindowSpace<kBytes>*>(dynamic));
}
template <class Source>
__global__ void __launch_bounds__(kPlanThreads)
    plan_tiles(Source source, Choice choice, TileJob tiles, Progress* progress) {
  __shared__ PlanSpace space;
  device::gpu::wait_for_earlier();
  plan_tiles_body<kTileBytes>(source, choice, tiles, *progress, space);
}
template <class Source>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    write_tiles(Source source, Choice choice, TileJob tiles, Progress* progress) {
  extern __shared__ uint4 dynamic[];
  device::gpu::wait_for_earlier();
  tiles_body(source, choice, tiles, *progress, *reinterpret_cast<TileSpace<kTileBytes>*>(dynamic));
}

// `progress` is in device memory and zeroed. `least`, `streams`: lower and upper bound on the number of streams.
template <class Source>
void launch_output(device::gpu::Launcher& launch, const Source& source, const Choice& choice, const TileJob& tiles,
                   Progress* progress, std::uint64_t least, std::uint64_t streams, std::uint64_t multiprocessors) {
  if (least <= choice.max_by_tiles) {
    constexpr int kShared = sizeof(TileSpace<kTileBytes>);
    launch.check(cudaFuncSetAttribute(write_tiles<Source>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    launch(plan_tiles<Source>, 1, kPlanThreads, 0, source, choice, tiles, progress);
    launch(write_tiles<Source>, std::min<std::uint64_t>(tiles.steps, multiprocessors * kTileBlocks), kTileThreads,
           kShared, source, choice, tiles, progress);
  }
  const auto by_windows = [&]<unsigned kThreads, unsigned kBlocks, std::uint32_t kBytes>(std::uint32_t above,
                                                                                         std::uint32_t most) {
    if (least > most || streams <= above) return;
    const auto kernel = write_windows<kThreads, kBlocks, kBytes, Source>;
    constexpr int kShared = sizeof(WindowSpace<kBytes>);
    launch.check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    launch(kernel, std::min<std::uint64_t>(streams, multiprocessors * kBlocks), kThreads, kShared, source, above, most,
           progress);
  };
  by_windows.template operator()<kLargeWindowThreads, 1, kLargeWindowBytes>(choice.max_by_tiles,
                                                                            choice.max_by_large_windows);
  by_windows.template operator()<kWindowThreads, kWindowBlocks, kWindowBytes>(choice.max_by_large_windows,
                                                                              choice.max_by_windows);
  if (streams > choice.max_by_windows) {
    launch(write_inorder<Source>, device::gpu::blocks_for(streams, kInorderThreads / 32, multiprocessors * 16),
           kInorderThreads, 0, source, choice, progress);
  }
}

}  // namespace headrace::codec::gpu::lz77
