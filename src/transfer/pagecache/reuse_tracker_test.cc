// ReuseTracker: detects the second read of a granule, and keeps only as much as there is room for.
#include "transfer/pagecache/reuse_tracker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace headrace::transfer {
namespace {

using Advice = ReuseTracker::Advice;
constexpr std::uint64_t kGranule = ReuseTracker::kGranuleBytes;

std::atomic<std::uint64_t> g_spare{0}, g_now{1};
std::atomic<int> g_asked{0};
std::uint64_t spare() {
  ++g_asked;
  return g_spare;
}
std::uint64_t now() { return g_now; }

class Reuse : public ::testing::Test {
 protected:
  void SetUp() override {
    g_spare = 100 * kGranule;
    g_now = 1;
    g_asked = 0;
  }
  // Reads the whole file once in pieces; counts each answer.
  struct Answers {
    std::uint64_t direct = 0, prefetch = 0, cached = 0;
  };
  Answers pass(const os::FileIdentity& file, std::uint64_t piece) {
    Answers out;
    for (std::uint64_t at = 0; at < file.size_bytes; at += piece) {
      const Advice advice = tracker_.note(file, at, std::min(piece, file.size_bytes - at));
      ++(advice == Advice::kDirect ? out.direct : advice == Advice::kPrefetch ? out.prefetch : out.cached);
    }
    return out;
  }
  ReuseTracker tracker_{&spare, &now};
};

os::FileIdentity file_of(std::uint64_t inode, std::uint64_t bytes) { return {1, inode, bytes, 5, 6}; }

TEST_F(Reuse, TheSecondPassPrefetchesEachGranuleOnceAndTheThirdFindsIt) {
  for (const std::uint64_t piece : {std::uint64_t{4096}, std::uint64_t{1} << 20, kGranule}) {
    const os::FileIdentity file = file_of(piece, 3 * kGranule + 5 * 4096);
    const std::uint64_t pieces = (file.size_bytes + piece - 1) / piece;
    const std::uint64_t kept = tracker_.kept_bytes();
    EXPECT_EQ(pass(file, piece).direct, pieces) << piece;
    EXPECT_EQ(tracker_.kept_bytes(), kept);
    const Answers second = pass(file, piece);
    EXPECT_EQ(second.prefetch, 4u) << piece;
    EXPECT_EQ(second.cached, pieces - 4);
    EXPECT_EQ(tracker_.kept_bytes() - kept, file.size_bytes);
    EXPECT_EQ(pass(file, piece).cached, pieces);
  }
}

TEST_F(Reuse, AChangedFileIsAnotherFile) {
  os::FileIdentity file = file_of(1, kGranule);
  pass(file, kGranule);
  EXPECT_EQ(pass(file, kGranule).prefetch, 1u);
  for (std::int64_t* time : {&file.modified_ns, &file.changed_ns}) {
    ++*time;
    EXPECT_EQ(pass(file, kGranule).direct, 1u);
  }
  ++file.inode;
  EXPECT_EQ(pass(file, kGranule).direct, 1u);
  ++file.device;
  EXPECT_EQ(pass(file, kGranule).direct, 1u);
}

TEST_F(Reuse, WhatDoesNotFitStaysDirect) {
  const os::FileIdentity file = file_of(2, 200 * kGranule);
  pass(file, 1 << 20);
  pass(file, 1 << 20);
  const Answers third = pass(file, 1 << 20);
  EXPECT_EQ(tracker_.kept_bytes(), 50 * kGranule);  // half of the spare memory
  EXPECT_EQ(third.cached, 200u);
  EXPECT_EQ(third.direct, 600u);
  EXPECT_EQ(g_asked, 1);
}

TEST_F(Reuse, StopsKeepingWhileSpareMemoryIsLow) {
  const os::FileIdentity file = file_of(3, 10 * kGranule);
  pass(file, 1 << 20);
  pass(file, 1 << 20);
  EXPECT_EQ(pass(file, 1 << 20).cached, 40u);
  g_spare = 10 * kGranule;
  EXPECT_EQ(pass(file, 1 << 20).cached, 40u);  // not asked again yet
  g_now += 10'000'000'000;
  EXPECT_EQ(pass(file, 1 << 20).direct, 40u);
  g_spare = 100 * kGranule;
  g_now += 10'000'000'000;
  EXPECT_EQ(pass(file, 1 << 20).cached, 40u);
}

TEST_F(Reuse, KeepsNothingWithoutSpareMemory) {
  g_spare = 0;
  const os::FileIdentity file = file_of(4, kGranule);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pass(file, 4096).direct, 1024u);
  EXPECT_EQ(tracker_.kept_bytes(), 0u);
}

TEST_F(Reuse, NothingIsNotedBeyondTheEnd) {
  const os::FileIdentity file = file_of(5, 1000);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(tracker_.note(file, kGranule, 4096), Advice::kDirect);
    EXPECT_EQ(tracker_.note(file, 0, 0), Advice::kDirect);
  }
  EXPECT_EQ(tracker_.note(file, 0, 4096), Advice::kDirect);  // the first read, widened beyond the end
  EXPECT_EQ(tracker_.note(file, 0, 4096), Advice::kPrefetch);
}

TEST_F(Reuse, MoreFilesThanTheTableHoldsAreForgottenAndTheSumStaysRight) {
  g_spare = std::uint64_t{1} << 50;
  constexpr std::uint64_t kFiles = 400'000;
  std::uint64_t brought = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < kFiles; ++i) {
      if (tracker_.note(file_of(i, 1000), 0, 1000) == Advice::kPrefetch) ++brought;
      ASSERT_LE(tracker_.kept_bytes(), 131'072u * 1000u);
    }
  }
  EXPECT_GE(brought * 1000, tracker_.kept_bytes());
}

TEST_F(Reuse, ManyThreadsPrefetchEachGranuleOnce) {
  const os::FileIdentity file = file_of(6, 40 * kGranule);
  std::atomic<std::uint64_t> brought{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 4; ++round) {
        for (std::uint64_t at = 0; at < file.size_bytes; at += 65536) {
          if (tracker_.note(file, at, 65536) == Advice::kPrefetch) ++brought;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(brought, 40u);
  EXPECT_EQ(tracker_.kept_bytes(), file.size_bytes);
}

TEST_F(Reuse, TheMachineHasSomeMemoryToSpare) { EXPECT_GT(ReuseTracker::spare_memory_bytes(), 1u << 20); }

}  // namespace
}  // namespace headrace::transfer
