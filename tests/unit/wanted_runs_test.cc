// Property: runs cover what was added, are in order and separate, and never more than allowed. For a box, they leave
// out the gaps between its slowest steps.
#include "transfer/read/wanted_runs.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace headrace::transfer {
namespace {

void expect_in_order(const WantedRuns& runs, std::size_t most) {
  ASSERT_LE(runs.all().size(), most);
  for (std::size_t i = 1; i < runs.all().size(); ++i) {
    ASSERT_LT(runs.all()[i - 1].first + runs.all()[i - 1].bytes, runs.all()[i].first);
  }
}

TEST(WantedRunsTest, CoverWhatWasAdded) {
  std::mt19937 random(20261126);
  for (std::size_t round = 0; round < 2000; ++round) {
    const std::size_t most = 1 + random() % WantedRuns::kMax;
    WantedRuns runs(most);
    std::vector<bool> wanted(400), covered(400);
    std::size_t apart = 0;
    for (std::size_t i = 0; i < 1 + round % 12; ++i) {
      const std::uint64_t first = random() % 390, bytes = random() % 10;
      for (std::uint64_t k = 0; k < bytes; ++k) wanted[first + k] = true;
      runs.add({first, bytes});
      expect_in_order(runs, most);
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) apart += wanted[i] && (i == 0 || !wanted[i - 1]) ? 1 : 0;
    for (const RawSpan& run : runs.all()) {
      for (std::uint64_t k = 0; k < run.bytes; ++k) covered[run.first + k] = true;
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_TRUE(covered[i] || !wanted[i]) << i;
    if (apart <= most) {
      ASSERT_EQ(covered, wanted) << "every separate range gets a run";
    }
  }
}

TEST(WantedRunsTest, NearestAreJoined) {
  WantedRuns runs(3);
  for (const std::uint64_t first : {5000, 0, 1000, 5500, 3000}) runs.add({first, 100});
  ASSERT_EQ(runs.all().size(), 3u);
  EXPECT_EQ(runs.all()[0].bytes, 1100u);
  EXPECT_EQ(runs.all()[1].first, 3000u);
  EXPECT_EQ(runs.all()[2].first, 5000u);
  EXPECT_EQ(runs.bytes(), 1100u + 100 + 600);
}

device::Box box_of(const std::vector<std::pair<std::uint64_t, std::int64_t>>& dims) {
  device::Box box;
  for (const auto& [extent, stride] : dims) {
    box.dim[static_cast<std::size_t>(box.rank++)] = {extent, stride, 0};
  }
  return box;
}

// Elements of 4 bytes in frames of 1,000 x 1,000.
TEST(WantedRunsTest, OfABoxAreThoseOfItsFrames) {
  const device::Box frames = box_of({{3, 4'000'000}, {100, 4'000}, {50, 4}});
  WantedRuns runs;
  runs.add(frames, 8'000, 4);
  ASSERT_EQ(runs.all().size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(runs.all()[i].first, 8'000 + i * 4'000'000);
    EXPECT_EQ(runs.all()[i].bytes, 99u * 4'000 + 50 * 4) << "its rows lie close to each other";
  }
  // The slowest dimension need not be the first.
  WantedRuns turned;
  turned.add(box_of({{100, 4'000}, {50, 4}, {3, 4'000'000}}), 8'000, 4);
  ASSERT_EQ(turned.all().size(), 3u);
  EXPECT_EQ(turned.bytes(), runs.bytes());
  // If there are more frames than runs allowed, most frames share one run; a very large number of frames is not
  // examined at all.
  WantedRuns many;
  many.add(box_of({{20, 4'000'000}, {10, 4'000}, {50, 4}}), 0, 4);
  EXPECT_EQ(many.all().size(), WantedRuns::kMax);
  WantedRuns too_many;
  too_many.add(box_of({{1000, 40'000}, {10, 4}}), 0, 4);
  EXPECT_EQ(too_many.all().size(), 1u);
  EXPECT_EQ(too_many.bytes(), 999u * 40'000 + 40);
  WantedRuns none;
  none.add(box_of({{0, 4'000}, {5, 4}}), 0, 4);
  EXPECT_TRUE(none.all().empty());
}

}  // namespace
}  // namespace headrace::transfer
