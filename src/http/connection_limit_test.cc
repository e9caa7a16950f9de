// How the connection limit adapts to simulated servers.
#include "http/connection_limit.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headrace::http {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kLatency = 20 * kMs;

// A server with a fixed latency that serves at most `lanes` connections at a time.
struct ToyServer {
  std::uint32_t lanes = 1'000'000;    // connections beyond this queue
  std::uint32_t refuses = 1'000'000;  // connections beyond this are refused
  std::uint32_t fails = 0;            // one in so many responses fails; 0: none
  std::uint64_t now = 1, count = 0;
  bool busy = true;

  void run(ConnectionLimit& limit, std::uint64_t ms) {
    for (const std::uint64_t end = now + ms * kMs; now < end; now += kLatency) {
      const std::uint32_t used = limit.limit();
      for (std::uint32_t i = 0; i < std::min(used, lanes); ++i) {
        ++count;
        if (i >= refuses || (fails != 0 && count % fails == 0)) {
          limit.refused(now, kLatency);
        } else {
          limit.answered(now, 100'000, kLatency, busy);
        }
      }
    }
  }
};

TEST(ConnectionLimits, StartAtTheDefault) {
  EXPECT_EQ(ConnectionLimit(1000).limit(), ConnectionLimit::kFirst);
  EXPECT_EQ(ConnectionLimit(8).limit(), 8u);
  EXPECT_EQ(ConnectionLimit(0).limit(), 1u);
}

TEST(ConnectionLimits, GrowWithTheRate) {
  ConnectionLimit limit(256);
  ToyServer server;
  server.run(limit, 20'000);
  EXPECT_EQ(limit.limit(), 256u) << "and no further";
}

TEST(ConnectionLimits, StopGrowingWithoutGain) {
  ConnectionLimit limit(1024);
  ToyServer server{.lanes = 100};
  std::uint64_t above = 0;
  for (int i = 0; i < 1000; ++i) {
    server.run(limit, 100);
    above += limit.limit() > 125 ? 1 : 0;
    EXPECT_LE(limit.limit(), 160u);
    EXPECT_GE(limit.limit(), 64u);
  }
  EXPECT_LE(above, 100u) << "more are tried rarely";
}

TEST(ConnectionLimits, DoNotGrowWithoutWaitingRequests) {
  ConnectionLimit limit(1024);
  ToyServer server{.busy = false};
  server.run(limit, 20'000);
  EXPECT_EQ(limit.limit(), ConnectionLimit::kFirst);
}

TEST(ConnectionLimits, FallToWhatTheServerAccepts) {
  for (const std::uint32_t takes : {1u, 5u, 20u, 50u}) {
    ConnectionLimit limit(256);
    ToyServer server{.refuses = takes};
    server.run(limit, 2'000);
    std::uint64_t sum = 0;
    for (int i = 0; i < 200; ++i) {
      server.run(limit, 100);
      sum += limit.limit();
      EXPECT_LE(limit.limit(), takes + 4 + takes / 8) << takes;
    }
    EXPECT_GE(sum / 200, std::max(takes / 2, 1u)) << takes;
  }
}

TEST(ConnectionLimits, RecoverWithTheServer) {
  ConnectionLimit limit(64);
  ToyServer server{.refuses = 2};
  server.run(limit, 2'000);
  EXPECT_LE(limit.limit(), 8u);
  server.refuses = 1'000'000;
  server.run(limit, 60'000);
  EXPECT_EQ(limit.limit(), 64u);
}

TEST(ConnectionLimits, RareFailuresAreIgnored) {
  ConnectionLimit limit(64);
  ToyServer server{.fails = 100};
  server.run(limit, 20'000);
  EXPECT_EQ(limit.limit(), 64u);
}

TEST(ConnectionLimits, ABurstCountsAsOneRefusal) {
  ConnectionLimit limit(64);
  for (int i = 0; i < 64; ++i) limit.refused(1000, kLatency);
  EXPECT_EQ(limit.limit(), 32u);
  for (int i = 0; i < 64; ++i) limit.refused(1000 + 39 * kMs, kLatency);
  EXPECT_EQ(limit.limit(), 32u);
  for (int i = 0; i < 64; ++i) limit.refused(1000 + 41 * kMs, kLatency);
  EXPECT_EQ(limit.limit(), 16u);
}

TEST(ConnectionLimits, TolerateAnyClock) {
  ConnectionLimit limit(128);
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  for (int i = 0; i < 10'000; ++i) {
    limit.answered(i % 3 == 0 ? kEnd : i % 3 == 1 ? 0 : kEnd / 2, kEnd, kEnd, i % 2 == 0);
    if (i % 50 == 0) limit.refused(i % 100 == 0 ? kEnd : 0, kEnd);
    ASSERT_GE(limit.limit(), 1u);
    ASSERT_LE(limit.limit(), 128u);
  }
}

}  // namespace
}  // namespace headrace::http
