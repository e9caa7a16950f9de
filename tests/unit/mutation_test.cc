// Properties that the device campaign relies on: mutation plans are repeatable, stay within their sources, and cover
// all kinds of mutation.
#include "support/mutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace headrace::test {
namespace {

struct Sources {
  std::vector<unsigned char> bytes;
  std::vector<std::uint64_t> offset;
  std::vector<std::uint32_t> length;
  explicit Sources(const std::vector<std::uint32_t>& lengths) {
    for (const std::uint32_t n : lengths) {
      offset.push_back(bytes.size());
      length.push_back(n);
      for (std::uint32_t i = 0; i < n; ++i) bytes.push_back(static_cast<unsigned char>(i * 7 + n));
    }
  }
  MutationSource view() const {
    return {bytes.data(), offset.data(), length.data(), static_cast<std::uint32_t>(length.size())};
  }
};

std::vector<unsigned char> make(const MutationSource& source, const MutationPlan& plan) {
  std::vector<unsigned char> out(plan.bytes);
  for (std::uint32_t i = 0; i < plan.bytes; ++i) out[i] = mutant_byte(source, plan, i);
  return out;
}

TEST(Mutation, StaysWithinItsSourcesAndDoesEverything) {
  for (const auto& lengths : {std::vector<std::uint32_t>{0}, {1}, {3, 0, 1}, {100, 5000, 64}, {17}}) {
    const Sources sources(lengths);
    const MutationSource view = sources.view();
    const std::uint32_t longest = *std::max_element(lengths.begin(), lengths.end());
    std::uint64_t untouched = 0, shorter = 0, longer = 0, spliced = 0, runs = 0, changed = 0;
    constexpr std::uint64_t kCount = 20000;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const MutationPlan plan = plan_mutation(view, 42, i);
      ASSERT_LT(plan.base, view.count);
      ASSERT_LE(plan.bytes, longest + MutationPlan::kMaxAppended);
      ASSERT_LE(std::min(plan.cut, plan.source_bytes), view.length[plan.base]);
      if (plan.source_bytes > plan.cut) {
        ASSERT_LE(std::uint64_t{plan.tail_from} + plan.source_bytes - plan.cut, view.length[plan.tail]);
      }
      const std::vector<unsigned char> mutant = make(view, plan);
      const auto* const from = sources.bytes.data() + sources.offset[plan.base];
      const std::vector<unsigned char> whole(from, from + sources.length[plan.base]);
      if (plan.untouched) {
        ASSERT_EQ(mutant, whole);
      }
      untouched += plan.untouched;
      shorter += plan.bytes < whole.size();
      longer += plan.bytes > whole.size();
      spliced += plan.tail != plan.base;
      runs += plan.run_bytes > 0;
      changed += mutant != whole;
    }
    EXPECT_NEAR(static_cast<double>(untouched), kCount / 16.0, kCount / 100.0);
    EXPECT_GT(longer, kCount / 20);
    if (longest >= 17) {
      EXPECT_GT(shorter, kCount / 20);
      EXPECT_GT(runs, kCount / 20);
      EXPECT_GT(changed, kCount * 8 / 10);
      if (view.count > 1) {
        EXPECT_GT(spliced, kCount / 40);
      }
    }
  }
}

TEST(Mutation, RepeatsForTheSameSeedAndIndexOnly) {
  const Sources sources({300, 200});
  const MutationSource view = sources.view();
  std::uint64_t same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto once = make(view, plan_mutation(view, 7, i));
    EXPECT_EQ(once, make(view, plan_mutation(view, 7, i)));
    same += once == make(view, plan_mutation(view, 8, i));
    same += once == make(view, plan_mutation(view, 7, i + 1));
  }
  EXPECT_LT(same, 60u);
}

}  // namespace
}  // namespace headrace::test
