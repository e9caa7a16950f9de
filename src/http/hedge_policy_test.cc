// When a response counts as late, with simulated response times.
#include "http/hedge_policy.h"

#include <gtest/gtest.h>

namespace headrace::http {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

TEST(HedgePolicies, NothingIsLateWithFewSamples) {
  HedgePolicy policy;
  for (std::uint32_t i = 0; i + 1 < HedgePolicy::kMinAnswers; ++i) policy.answered(100 * kMs, 100 * kMs);
  EXPECT_FALSE(policy.late_after(100 * kMs));
  policy.answered(100 * kMs, 100 * kMs);
  ASSERT_TRUE(policy.late_after(100 * kMs));
  EXPECT_GE(*policy.late_after(100 * kMs), 100 * kMs);
  EXPECT_LE(*policy.late_after(100 * kMs), 130 * kMs);
}

TEST(HedgePolicies, LateMeansSlowerThanMostResponses) {
  HedgePolicy policy;  // half of them as expected, the others up to twice as long
  for (std::uint64_t i = 0; i < 1000; ++i) policy.answered(i % 2 == 0 ? 100 * kMs : (100 + i / 10) * kMs, 100 * kMs);
  EXPECT_GE(*policy.late_after(100 * kMs), 170 * kMs);
  EXPECT_LE(*policy.late_after(100 * kMs), 240 * kMs);
  EXPECT_GE(*policy.late_after(1000 * kMs), 1700 * kMs) << "long answers have longer";
  EXPECT_EQ(*policy.late_after(kMs), HedgePolicy::kMinNs);
}

TEST(HedgePolicies, TheSlowTwentiethIsLateEarly) {
  HedgePolicy policy;
  for (int i = 0; i < 1000; ++i) policy.answered(i % 20 < 2 ? 1000 * kMs : 100 * kMs, 100 * kMs);
  EXPECT_GE(*policy.late_after(100 * kMs), 200 * kMs);
  EXPECT_LE(*policy.late_after(100 * kMs), 260 * kMs);
}

TEST(HedgePolicies, OldSamplesFade) {
  HedgePolicy policy;
  for (int i = 0; i < 3000; ++i) policy.answered(800 * kMs, 100 * kMs);
  for (int i = 0; i < 6000; ++i) policy.answered(100 * kMs, 100 * kMs);
  EXPECT_LE(*policy.late_after(100 * kMs), 130 * kMs);
}

TEST(HedgePolicies, HaveABudget) {
  HedgePolicy policy;
  EXPECT_FALSE(policy.take(1)) << "nothing was answered";
  for (int i = 0; i < 19; ++i) policy.answered(1, 1);
  EXPECT_FALSE(policy.take(1));
  policy.answered(1, 1);
  EXPECT_TRUE(policy.take(1)) << "one for twenty";
  EXPECT_FALSE(policy.take(1));
  for (int i = 0; i < 10'000; ++i) policy.answered(1, 1);
  std::uint32_t taken = 0;
  while (policy.take(1)) ++taken;
  EXPECT_EQ(taken, HedgePolicy::kMaxSaved) << "what was saved is no flood";
}

TEST(HedgePolicies, AreSuspendedForOverloadedServers) {
  HedgePolicy policy;
  for (int i = 0; i < 100; ++i) policy.answered(1, 1);
  policy.throttled(1000);
  EXPECT_FALSE(policy.take(1001));
  EXPECT_FALSE(policy.take(1000 + HedgePolicy::kQuietNs - 1));
  EXPECT_TRUE(policy.take(1000 + HedgePolicy::kQuietNs));
}

TEST(HedgePolicies, TolerateAnyClock) {
  HedgePolicy policy;
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  for (int i = 0; i < 100; ++i) {
    policy.answered(kEnd, 0);
    policy.answered(0, kEnd);
    policy.answered(kEnd, kEnd);
  }
  EXPECT_GE(*policy.late_after(0), HedgePolicy::kMinNs);
  EXPECT_GE(*policy.late_after(kEnd), HedgePolicy::kMinNs);
}

}  // namespace
}  // namespace headrace::http
