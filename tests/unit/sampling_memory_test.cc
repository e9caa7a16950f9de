// A sample's position in an epoch, its slices and its crops need no allocation. A schema of 10^10 samples needs no more
// memory than one of 10.
#include <gtest/gtest.h>
#include <headrace/crops.h>
#include <headrace/order.h>
#include <headrace/split.h>

#include <array>

#include "tests/support/alloc_counter.h"

namespace headrace {
namespace {

using support::AllocScope;

Windows windows(std::uint64_t times) {
  WindowOptions options;
  options.input_dims = {{"time", 2}};
  options.input_stride = {{"time", 1}};
  options.boundary = Boundary::kWrap;
  return Windows::create({{"time", times}, {"lat", 90}, {"lon", 180}}, options).value();
}

TEST(SamplingMemory, SamplesAllocateNothing) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  const Windows all = windows(10'000'000'000);
  const Crops crops = Crops::create(all, {{{"lat", 32}, {"lon", 32}}, 4, {"lon"}, {"lat"}}).value();
  const std::array orders = {Order::full_shuffle(crops.sample_count()).value(),
                             Order::block_shuffle({crops.sample_grid(), {8, 4}, 16}).value(),
                             Order::list({5, 7, 1}, crops.sample_count(), true).value(),
                             Order::weighted({1, 2, 3}).value()};
  std::array<DimSlice, 3> out;
  const AllocScope scope(AllocScope::Of::kThread);
  for (const Order& order : orders) {
    const EpochOrder of_epoch = order.epoch(1, 2);
    const auto split = Split::create({1, 2, 1, 1, Tail::kPad}, order.positions());
    for (std::uint64_t index = 0; index < std::min<std::uint64_t>(split->batches(), 100); ++index) {
      const std::uint64_t sample = of_epoch.sample(split->batch(index).position(0));
      ASSERT_TRUE(crops.slices(1, 2, sample, 0, 0, out).ok());
      ASSERT_TRUE(all.slices(sample / 4, 0, 0, out).ok());
    }
  }
  EXPECT_EQ(scope.allocations(), 0u);
}

TEST(SamplingMemory, DoesNotGrowWithTheNumberOfSamples) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  const auto bytes_of = [](std::uint64_t times) {
    const AllocScope scope(AllocScope::Of::kThread);
    const Windows all = windows(times);
    const Order full = Order::full_shuffle(all.sample_count()).value();
    const Order block = Order::block_shuffle({all.sample_grid(), {8}, 16}).value();
    return scope.bytes();
  };
  EXPECT_GT(bytes_of(10), 0u);
  EXPECT_EQ(bytes_of(10), bytes_of(10'000'000'000));
}

}  // namespace
}  // namespace headrace
