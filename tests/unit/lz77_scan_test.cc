// Running sums of the GPU decoders, their source run on the CPU: by one thread block and by all blocks of a launch,
// each equals the sum computed one by one, and every element is read before it is overwritten.
// clang-format off: gives the device code its keywords
#include "support/cuda_on_cpu.h"
// clang-format on

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "codecs/lz77/lz77_scan_device.cuh"

namespace headrace::test {
namespace {

namespace lz77 = codec::gpu::lz77;

struct Counts {
  std::uint64_t large = 0;
  std::uint32_t small = 0, unused = 0;

  Counts& operator+=(const Counts& more) {
    large += more.large;
    small += more.small;
    return *this;
  }
};

std::vector<Counts> some_counts(std::uint32_t count) {
  std::vector<Counts> out(count);
  for (std::uint32_t i = 0; i < count; ++i) out[i] = {(std::uint64_t{i} << 33) + i % 7, i % 5 + 1};
  return out;
}

void expect_running_sums(const std::vector<Counts>& counts, const std::vector<Counts>& sums, const Counts& total) {
  Counts upto;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    ASSERT_EQ(sums[i].large, upto.large) << i << " of " << counts.size();
    ASSERT_EQ(sums[i].small, upto.small) << i << " of " << counts.size();
    upto += counts[i];
  }
  EXPECT_EQ(total.large, upto.large) << counts.size();
  EXPECT_EQ(total.small, upto.small) << counts.size();
}

// Lengths around what a warp, a block and a tile sum at a time.
constexpr std::uint32_t kLengths[] = {0, 1, 7, 8, 9, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2048, 5000};

TEST(Lz77Scan, ByOneBlock) {
  for (const std::uint32_t count : kLengths) {
    const std::vector<Counts> counts = some_counts(count);
    std::vector<Counts> sums = counts;
    constexpr unsigned kThreads = 64;
    Counts shared[kThreads / 32], total;
    testing::gpu::launch(1, kThreads, [&] {
      const Counts all = lz77::scan_by_block(
          count, shared, [&](std::uint32_t i) { return sums[i]; },
          [&](std::uint32_t i, const Counts& before) { sums[i] = before; });
      if (threadIdx.x == 0) total = all;
    });
    expect_running_sums(counts, sums, total);
  }
}

TEST(Lz77Scan, ByAllBlocksOfALaunch) {
  for (const unsigned blocks : {1u, 3u, 8u}) {
    for (const std::uint32_t count : kLengths) {
      const std::vector<Counts> counts = some_counts(count);
      std::vector<Counts> sums = counts;
      std::vector<lz77::ScanTile<Counts>> tiles(lz77::scan_tiles(count));
      for (lz77::ScanTile<Counts>& tile : tiles) tile = {};
      static lz77::ScanShared<Counts> shared;
      Counts total;
      int finished = 0;
      testing::gpu::launch(blocks, lz77::kScanTileThreads, [&] {
        lz77::scan_by_blocks(
            count, tiles.data(), shared, [&](std::uint32_t i) { return sums[i]; },
            [&](std::uint32_t i, const Counts& before) { sums[i] = before; },
            [&](const Counts& all) {
              total = all;
              ++finished;
            });
      });
      expect_running_sums(counts, sums, total);
      EXPECT_EQ(finished, 1) << count << " by " << blocks;
    }
  }
}

}  // namespace
}  // namespace headrace::test
