// Runs the launches of codecs/lz77 on the CPU in the order of launch_output().
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include "codecs/lz77/lz77_inorder_device.cuh"
#include "codecs/lz77/lz77_tiles_device.cuh"
#include "codecs/lz77/lz77_windows_device.cuh"

namespace headrace::test {

class Lz77OnCpu {
 public:
  enum class Way { kInOrder, kWindows, kTiles };

  // Uses small tiles and slices, so that streams have many.
  static codec::gpu::lz77::TileLayout layout(std::uint64_t streams, std::uint64_t bytes) {
    return {0, streams, bytes, kWindow, kSlice};
  }
  template <class Source>
  static void write(const Source& source, const codec::gpu::lz77::TileJob& tiles, codec::gpu::lz77::Progress& progress,
                    Way way, unsigned blocks) {
    namespace lz77 = codec::gpu::lz77;
    static lz77::WindowSpace<kWindow> window;
    static lz77::PlanSpace plan;
    static lz77::TileSpace<kWindow> tile;
    const auto launch = [](unsigned count, const auto& body) { testing::gpu::launch(count, kThreads, body); };
    const std::uint32_t all = source.stream_count();
    const std::uint32_t few = way == Way::kTiles && all <= lz77::TileLayout::kMaxStreams ? all : 0,
                        most = way == Way::kInOrder ? 0 : all;
    const lz77::Choice choice{few, few, most};
    launch(1, [&] { lz77::plan_tiles_body<kWindow>(source, choice, tiles, progress, plan); });
    launch(blocks, [&] { lz77::tiles_body(source, choice, tiles, progress, tile); });
    launch(blocks, [&] {
      if (blocks % 2 == 0) {
        lz77::windows_body<4>(source, few, most, progress, window);
      } else {
        lz77::windows_body<8>(source, few, most, progress, window);
      }
    });
    launch(blocks, [&] { lz77::inorder_body(source, most, progress); });
  }

 private:
  static constexpr unsigned kThreads = 64;
  static constexpr std::uint32_t kWindow = 1024, kSlice = 10;
};

}  // namespace headrace::test
