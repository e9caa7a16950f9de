// The watch of a soak detects what grows with each read, and ignores caches that fill up and then stay constant.
#include "support/steady_watch.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headrace::support {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

template <class HeldAt>
std::string growth_of(double seconds, HeldAt held_at) {
  SteadyWatch watch(seconds);
  for (double at = 0; at <= seconds; at += 1) watch.sample(at, held_at(at));
  return watch.growth();
}

TEST(SteadyWatch, DetectsGrowth) {
  const Held usual{3000 * kMiB, 40, 196};
  const auto memory = [&](double at) {
    return Held{usual.memory_bytes + static_cast<std::uint64_t>(at) * kMiB, usual.descriptors, usual.threads};
  };
  EXPECT_EQ(growth_of(7200, memory), "resident bytes grew from 6919553024 to 10695475200");
  const auto descriptors = [&](double at) {
    return Held{usual.memory_bytes, usual.descriptors + static_cast<std::uint64_t>(at / 100), usual.threads};
  };
  EXPECT_EQ(growth_of(7200, descriptors), "descriptors grew from 75 to 112");
  const auto threads = [&](double at) { return Held{usual.memory_bytes, usual.descriptors, at > 5000 ? 300u : 196u}; };
  EXPECT_EQ(growth_of(7200, threads), "threads grew from 196 to 300");
}

TEST(SteadyWatch, LetsCachesFillUp) {
  const auto fills = [](double at) {
    return Held{static_cast<std::uint64_t>(std::min(at, 60.0)) * 50 * kMiB, at < 100 ? 10u : 40u, 196};
  };
  EXPECT_EQ(growth_of(600, fills), "");
  EXPECT_EQ(growth_of(60, fills), "") << "too short to be judged";
}

TEST(SteadyWatch, MeasuresThisProcess) {
  const Held held = held_now();
  EXPECT_GT(held.memory_bytes, kMiB);
  EXPECT_GE(held.descriptors, 3u);
  EXPECT_GE(held.threads, 1u);
}

}  // namespace
}  // namespace headrace::support
