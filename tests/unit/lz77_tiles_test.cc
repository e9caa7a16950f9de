// Output by tiles with steps in any order that their dependencies allow. The other tests of the decoders run them in
// the order in which they are dealt.
#include "tests/support/cuda_on_cpu.h"
// The order of includes matters: device code needs the above.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/lz77_on_cpu.h"
#include "tests/support/lz77_test_streams.h"

namespace headrace::test {
namespace {

namespace lz77 = codec::gpu::lz77;
using Stream = Lz77Stream;
using Source = Lz77Source;
using Random = Lz77Stream::Random;

constexpr std::uint32_t kTile = 256, kThreads = 64;
std::uint32_t below(Random& random, std::uint64_t limit) { return static_cast<std::uint32_t>(random() % limit); }

struct InAnyOrder {
  Random& random;
  std::uint32_t in_flight;  // steps held by thread blocks
  bool last_first;          // of the runnable ones

  void write(std::vector<Stream>& streams, std::uint32_t in_slice) {
    const Source source{&streams};
    std::uint64_t bytes = 0;
    for (const Stream& stream : streams) bytes += stream.expected.size();
    const auto count = static_cast<std::uint32_t>(streams.size());
    const lz77::TileLayout layout(count, count, bytes, kTile, in_slice);
    std::vector<std::byte> memory(layout.bytes() + 256, std::byte{0xA5});
    const std::size_t skip = (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
    const lz77::TileJob tiles = layout.job(memory.data() + skip);
    static lz77::PlanSpace plan;
    static lz77::TileSpace<kTile> space;
    lz77::Progress progress{};
    testing::gpu::launch(1, kThreads, [&] {
      lz77::plan_tiles_body<kTile>(source, lz77::Choice{count, count, count}, tiles, progress, plan);
    });
    ASSERT_LE(progress.stretches, lz77::TileLayout::kMaxStretches);
    ASSERT_LE(progress.steps, tiles.steps);
    std::copy_n(tiles.stretches, progress.stretches, space.stretches);
    std::vector<std::uint32_t> held;
    for (std::uint32_t next = 0; next < progress.steps || !held.empty();) {
      while (held.size() < in_flight && next < progress.steps) held.push_back(next++);
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < held.size(); ++i) {
        if (can_begin(tiles, progress, held[i])) ready.push_back(i);
      }
      // Otherwise a thread block with the first of all steps would wait for ever.
      ASSERT_FALSE(ready.empty());
      ASSERT_EQ(ready.front(), 0u);
      const std::size_t taken = last_first && below(random, 8) != 0 ? ready.back() : ready[below(random, ready.size())];
      testing::gpu::launch(1, kThreads,
                           [&] { lz77::take_step(source, tiles, progress.stretches, held[taken], space); });
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(taken));
    }
    for (const Stream& stream : streams) ASSERT_EQ(stream.output, stream.expected);
  }
  static bool can_begin(const lz77::TileJob& tiles, const lz77::Progress& progress, std::uint32_t number) {
    std::uint32_t i = 0;
    while (i + 1 < progress.stretches && tiles.stretches[i + 1].step <= number) ++i;
    const lz77::TileStep step = lz77::step_of(tiles.stretches[i], number);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const lz77::TileWait look = lz77::wait_of(step, lane);
      if (look.needed && tiles.left[look.counter] != 0) return false;
    }
    return true;
  }
};

TEST(Lz77Tiles, StepsInAnyOrderThatTheirWaitsAllow) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Stream> streams(seed % 3 == 0 ? 1 : 1 + below(random, 7));
    const std::uint32_t in_slice =
        std::max<std::uint32_t>(static_cast<std::uint32_t>(streams.size()), below(random, 9));
    const bool alike = below(random, 2) == 0;
    for (Stream& stream : streams) {
      const std::uint32_t bytes = alike ? 12000 : below(random, 40000);
      stream.make(random, bytes, kTile << below(random, 6));
    }
    InAnyOrder run{random, 1 + below(random, 60), below(random, 2) == 0};
    run.write(streams, std::max(in_slice, 1u));
    if (HasFatalFailure()) return;
  }
}

// Each step is dealt once, after everything it waits for.
TEST(Lz77Tiles, EachStepIsDealtOnce) {
  for (std::uint32_t slices = 1; slices < 40; ++slices) {
    const lz77::Stretch stretch{100, 7, 3, slices, 2, 3};
    std::vector<std::uint32_t> linked(slices, ~0u), followed(slices, ~0u);
    std::vector<std::uint32_t> seen(2 * slices * 6, 0);
    for (std::uint32_t at = 0; at < 2 * slices * 6; ++at) {
      const lz77::TileStep step = lz77::step_of(stretch, 100 + at);
      ASSERT_GE(step.slice, 7u);
      ASSERT_LT(step.slice, 7u + slices);
      const std::uint32_t tile = step.tile - 3 - (step.slice - 7) * 2;
      ASSERT_LT(tile, 2u);
      ASSERT_LT(step.rank, 3u);
      ++seen[(2 * (step.slice - 7) + (step.link ? 0 : 1)) * 6 + tile * 3 + step.rank];
      (step.link ? linked : followed)[step.slice - 7] = at;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const lz77::TileWait look = lz77::wait_of(step, lane);
        if (!look.needed || look.counter / 2 < 7) continue;
        ASSERT_NE((look.counter % 2 == 0 ? linked : followed)[look.counter / 2 - 7], ~0u);
      }
    }
    ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](std::uint32_t n) { return n == 1; }));
  }
}

}  // namespace
}  // namespace headrace::test
