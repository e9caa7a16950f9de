// The launches that write the output of sequences, in whichever way suits the number of streams.
//
// That number is known on the device, on the host only within limits; a way that it rules out ends at once.
#pragma once

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz77_tiles_device.cuh"
#include "lz77_windows_device.cuh"

namespace headrace::codec::gpu::lz77 {

// Warps of a team, and bytes of its window.
inline constexpr unsigned kTeamWarps = 4, kLargeTeamWarps = 12;
inline constexpr std::uint32_t kWarpWindow = 1024, kTeamWindow = 4096, kLargeTeamWindow = 16384;
inline constexpr unsigned kWarpsPerBlock = 4, kPlanThreads = 512;

inline Choice choose(std::uint64_t multiprocessors, const TileLayout& tiles) {
  const auto each = [&](std::uint64_t streams) { return static_cast<std::uint32_t>(multiprocessors * streams); };
  return {std::min(each(2), tiles.most_streams()), each(6), each(24)};
}

// `Source` as lz77_device.cuh says; copied to the device.
template <unsigned kWarps, unsigned kTeams, std::uint32_t kWindow, class Source>
__global__ void __launch_bounds__(32 * kWarps * kTeams, 36 / (kWarps * kTeams))
    write_windows(Source source, std::uint32_t above, std::uint32_t most, Progress* progress) {
  __shared__ WindowSpace<kWindow> spaces[kTeams];
  device::gpu::wait_for_earlier();
  windows_body<kWarps>(source, above, most, *progress, spaces);
}
template <class Source>
__global__ void __launch_bounds__(kPlanThreads)
    plan_tiles(Source source, Choice choice, TileJob tiles, Progress* progress) {
  __shared__ PlanSpace space;
  device::gpu::wait_for_earlier();
  plan_tiles_body<kTileBytes>(source, choice, tiles, *progress, space);
}
template <class Source>
__global__ void __launch_bounds__(32 * kTileWarps, 3)
    write_tiles(Source source, Choice choice, TileJob tiles, Progress* progress) {
  extern __shared__ uint4 dynamic[];
  device::gpu::wait_for_earlier();
  tiles_body<kTileWarps>(source, choice, tiles, *progress, *reinterpret_cast<TileSpace<kTileBytes>*>(dynamic));
}

// `progress` is in device memory and zero. `least`, `streams`: as many there are at least and at most.
template <class Source>
void launch_output(device::gpu::Launcher& launch, const Source& source, const Choice& choice, const TileJob& tiles,
                   Progress* progress, std::uint64_t least, std::uint64_t streams, std::uint64_t multiprocessors) {
  if (least <= choice.most_by_tiles) {
    constexpr int kShared = sizeof(TileSpace<kTileBytes>);
    launch.check(
        cudaFuncSetAttribute(write_tiles<Source>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    launch(plan_tiles<Source>, 1, kPlanThreads, 0, source, choice, tiles, progress);
    launch(write_tiles<Source>, std::min<std::uint64_t>(tiles.in_slice, multiprocessors * 3), 32 * kTileWarps, kShared,
           source, choice, tiles, progress);
  }
  const auto by_windows = [&](auto* kernel, unsigned teams, unsigned threads, std::uint64_t above, std::uint64_t most) {
    if (least > most || streams <= above) return;
    launch(kernel, device::gpu::blocks_for(streams, teams, multiprocessors * 36 * 32 / threads), threads, 0, source,
           static_cast<std::uint32_t>(above), static_cast<std::uint32_t>(most), progress);
  };
  by_windows(write_windows<kLargeTeamWarps, 1, kLargeTeamWindow, Source>, 1, 32 * kLargeTeamWarps,
             choice.most_by_tiles, choice.most_by_large_teams);
  by_windows(write_windows<kTeamWarps, 1, kTeamWindow, Source>, 1, 32 * kTeamWarps, choice.most_by_large_teams,
             choice.most_by_teams);
  by_windows(write_windows<1, kWarpsPerBlock, kWarpWindow, Source>, kWarpsPerBlock, 32 * kWarpsPerBlock,
             choice.most_by_teams, ~std::uint32_t{0});
}

}  // namespace headrace::codec::gpu::lz77
