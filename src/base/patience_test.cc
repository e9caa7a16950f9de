// A thread that waits long does not keep its CPU busy.
#include "base/patience.h"

#include <gtest/gtest.h>
#include <time.h>

namespace headrace::base {
namespace {

std::uint64_t cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

TEST(Patience, ALongWaitLeavesTheCpuToOthers) {
  constexpr std::uint64_t kWaitNs = 100'000'000;
  const std::uint64_t begun = now_ns(), cpu = cpu_ns();
  std::uint64_t looks = 0;
  for (const Patience patience; now_ns() - begun < kWaitNs; ++looks) patience.pause();
  EXPECT_LT(cpu_ns() - cpu, kWaitNs / 4);
  EXPECT_GT(looks, 20u);
}

TEST(Patience, AShortWaitSpins) {
  const Patience patience;
  const std::uint64_t begun = now_ns(), cpu = cpu_ns();
  std::uint64_t looks = 0;
  for (; now_ns() - begun < Patience::kSpinNs / 2; ++looks) patience.pause();
  const bool had_the_cpu = cpu_ns() - cpu > Patience::kSpinNs / 4;
  EXPECT_TRUE(looks > 5 || !had_the_cpu) << looks;
}

}  // namespace
}  // namespace headrace::base
