// What the model learns from simulated responses.
#include "http/link_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace headrace::http {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kMiB = 1 << 20;

// A response of a server with this latency and rate.
LinkAnswer answer(std::uint64_t latency_ns, std::uint64_t rate, std::uint64_t bytes) {
  constexpr std::uint64_t kBegin = 1000 * kMs;
  const std::uint64_t body_ns = bytes * 1000 / (rate / kMs);
  return {kBegin, kBegin + latency_ns, kBegin + latency_ns + body_ns, bytes, bytes};
}

void expect_near(std::uint64_t value, std::uint64_t wanted) {
  EXPECT_GE(value, wanted - wanted / 50);
  EXPECT_LE(value, wanted + wanted / 50);
}

TEST(LinkModels, OneAnswerIsUsedAndManyAreAveraged) {
  LinkModel link({});
  EXPECT_EQ(link.latency_ns(), LinkModel::kFirstLatencyNs);
  EXPECT_EQ(link.bytes_per_second(), LinkModel::kFirstRate);
  link.note(answer(100 * kMs, 10 * kMs, kMiB));
  expect_near(link.latency_ns(), 100 * kMs);
  expect_near(link.bytes_per_second(), 10'000'000);
  for (int i = 0; i < 100; ++i) link.note(answer(50 * kMs, 80 * kMs, kMiB));
  expect_near(link.latency_ns(), 50 * kMs);
  expect_near(link.bytes_per_second(), 80'000'000);
  expect_near(link.request_bytes(), 4'000'000);
  expect_near(link.expected_ns(8'000'000), 150 * kMs);
}

TEST(LinkModels, SmallAnswersDoNotAffectTheRate) {
  LinkModel link({});
  for (int i = 0; i < 20; ++i) link.note(answer(30 * kMs, 900 * kMs, LinkModel::kMinSample - 1));
  expect_near(link.latency_ns(), 30 * kMs);
  EXPECT_EQ(link.bytes_per_second(), LinkModel::kFirstRate);
}

TEST(LinkModels, BufferedBytesDoNotAffectTheRate) {
  LinkModel link({});
  for (int i = 0; i < 50; ++i) link.note({1000 * kMs, 1100 * kMs, 1120 * kMs, kMiB, 200'000});
  expect_near(link.bytes_per_second(), 10'000'000);
  LinkModel buffered({});
  for (int i = 0; i < 50; ++i) buffered.note({1000 * kMs, 1100 * kMs, 1120 * kMs, kMiB, 1000});
  EXPECT_EQ(buffered.bytes_per_second(), LinkModel::kFirstRate);
  LinkModel fast({});
  for (int i = 0; i < 50; ++i) fast.note({1000 * kMs, 1001 * kMs, 1002 * kMs, kMiB, 1000});
  expect_near(fast.bytes_per_second(), kMiB * 1000);
}

TEST(LinkModels, LatencyFollowsTheFasterAnswers) {
  LinkModel link({});
  for (int i = 0; i < 2000; ++i) link.note(answer(i % 2 == 0 ? 100 * kMs : 200 * kMs, 50 * kMs, kMiB));
  EXPECT_GE(link.latency_ns(), 95 * kMs);
  EXPECT_LE(link.latency_ns(), 130 * kMs);
}

// 64 concurrent requests to a server 1 ms away on a 1.6 GB/s link: the last response waits 40 ms, then its body arrives
// at once.
TEST(LinkModels, QueueingIsNotLatency) {
  LinkModel link({});
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t begin = 1000 * kMs, first = begin + kMs + static_cast<std::uint64_t>(i % 64) * 600'000;
    link.note({begin, first, first + 300'000, kMiB, 0});
  }
  EXPECT_LE(link.latency_ns(), 12 * kMs);
  EXPECT_LE(link.bytes_per_second(), 200'000'000u);
  EXPECT_GE(link.bytes_per_second(), 25'000'000u);
  EXPECT_LE(link.shape(64).gap_bytes, 2 * kMiB);  // the mean latency and each body's own rate would give 8 MiB
}

TEST(LinkModels, AFewSlowAnswersDoNotAffectTheLatency) {
  LinkModel link({});
  for (int i = 0; i < 2000; ++i) link.note(answer(i % 20 == 3 ? 1000 * kMs : 100 * kMs, 50 * kMs, kMiB));
  EXPECT_GE(link.latency_ns(), 90 * kMs);
  EXPECT_LE(link.latency_ns(), 160 * kMs);
}

TEST(LinkModels, TolerateAnyClock) {
  LinkModel link({});
  link.note({0, 1, 2, kMiB, kMiB});
  link.note({5, 4, 6, kMiB, kMiB});
  link.note({5, 6, 4, kMiB, kMiB});
  EXPECT_EQ(link.latency_ns(), LinkModel::kFirstLatencyNs);
  EXPECT_EQ(link.bytes_per_second(), LinkModel::kFirstRate);
  // All results stay within bounds, and nothing overflows.
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  for (const LinkAnswer& odd :
       {LinkAnswer{1, 1, 1, kEnd, kEnd}, LinkAnswer{1, 1, kEnd, kEnd, kEnd}, LinkAnswer{1, kEnd, kEnd, 1, kEnd},
        LinkAnswer{1, kEnd, kEnd, kEnd, 0}, LinkAnswer{kEnd, kEnd, kEnd, kMiB, kEnd}}) {
    for (int i = 0; i < 200; ++i) link.note(odd);
    const base::ReadShape shape = link.shape(1024);
    EXPECT_GE(shape.gap_bytes, LinkModel::kMinGap);
    EXPECT_LE(shape.gap_bytes, LinkModel::kMaxGap);
    EXPECT_GE(shape.group_bytes, LinkModel::kMinGroup);
    EXPECT_LE(shape.group_bytes, shape.max_group_bytes);
    EXPECT_GE(shape.window_bytes, 2048 * LinkModel::kMinGroup);
    EXPECT_GE(link.expected_ns(0), 1000u);
    EXPECT_GE(link.expected_ns(kEnd), link.expected_ns(kMiB));
    EXPECT_GE(link.parts(kEnd, 7), 1u);
    EXPECT_LE(link.parts(kEnd, 7), 7u);
  }
}

TEST(LinkModels, GapsAreReadWhileCheaperThanARequest) {
  const struct {
    std::uint64_t latency_ms, rate, gap;
  } rows[] = {{100, 50'000'000, 5'000'000},  // another continent
              {20, 50'000'000, 1'000'000},   // a cloud, from inside
              {1, 100'000'000, 100'000},     // the same rack
              {100, 1'000'000, 100'000},     // a narrow link
              {200, 500'000'000, 8 << 20},   // clamped
              {1, 1'000'000, LinkModel::kMinGap}};
  for (const auto& row : rows) {
    LinkModel link({});
    for (int i = 0; i < 50; ++i) link.note(answer(row.latency_ms * kMs, row.rate, 4 * kMiB));
    expect_near(link.shape(64).gap_bytes, row.gap);
  }
  // Until a rate is known, the link may be narrow.
  LinkModel fresh({});
  EXPECT_LE(fresh.shape(64).gap_bytes, LinkModel::kMaxFirstGap);
  fresh.note(answer(500 * kMs, kMs, 1));
  EXPECT_EQ(fresh.shape(64).gap_bytes, LinkModel::kMaxFirstGap);
}

TEST(LinkModels, DistantServersGetMoreInFlight) {
  LinkModel near({}), far({});
  for (int i = 0; i < 50; ++i) near.note(answer(kMs, 50 * kMs, kMiB));
  for (int i = 0; i < 50; ++i) far.note(answer(150 * kMs, 50 * kMs, kMiB));
  EXPECT_EQ(near.shape(64).window_bytes, 128 * kMiB);
  expect_near(far.shape(64).window_bytes, 128 * 7'500'000ull);
  EXPECT_LT(near.shape(64).group_bytes, far.shape(64).group_bytes);
  EXPECT_EQ(far.shape(128).window_bytes, 2 * far.shape(64).window_bytes);
}

TEST(LinkModels, RangesAreSplitIfPartsAreWorthARequest) {
  LinkModel link({});
  for (int i = 0; i < 50; ++i) link.note(answer(40 * kMs, 50 * kMs, kMiB));  // a request costs 2 MB
  EXPECT_EQ(link.parts(1'000'000, 64), 1u);
  EXPECT_EQ(link.parts(3'900'000, 64), 1u);
  EXPECT_EQ(link.parts(20'100'000, 64), 10u);
  EXPECT_EQ(link.parts(20'000'000, 4), 4u);
  EXPECT_EQ(link.parts(20'000'000, 1), 1u);
  EXPECT_EQ(link.parts(20'000'000, 0), 1u);
  EXPECT_EQ(link.parts(0, 64), 1u);
}

TEST(LinkModels, OptionsOverrideLearnedValues) {
  LinkModel link({.gap_bytes = 0, .group_bytes = 3 * kMiB, .part_bytes = kMiB});
  for (int i = 0; i < 50; ++i) link.note(answer(100 * kMs, 50 * kMs, kMiB));
  EXPECT_EQ(link.shape(64).gap_bytes, 0u);
  EXPECT_EQ(link.shape(64).group_bytes, 3 * kMiB);
  EXPECT_EQ(link.shape(64).max_group_bytes, 3 * kMiB);
  EXPECT_EQ(link.parts(kMiB + 1, 64), 2u);
  EXPECT_EQ(link.parts(8 * kMiB, 64), 8u);
  const LinkModel whole({.part_bytes = 0});
  EXPECT_EQ(whole.parts(std::uint64_t{1} << 40, 64), 1u);
}

TEST(LinkModels, TheFirstShapeDoesNotChange) {
  LinkModel link({});
  const base::ReadShape before = link.first_shape(64);
  for (int i = 0; i < 50; ++i) link.note(answer(300 * kMs, 5 * kMs, kMiB));
  EXPECT_EQ(link.first_shape(64).gap_bytes, before.gap_bytes);
  EXPECT_EQ(link.first_shape(64).group_bytes, before.group_bytes);
  EXPECT_NE(link.shape(64).gap_bytes, before.gap_bytes);
}

}  // namespace
}  // namespace headrace::http
