// The measuring parts of `headrace bench`: a random pass visits each block once, percentiles are within 1 %, and a
// verify block distinguishes a changed byte, a wrong place and an old pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "tools/headrace/bench/bench_text.h"
#include "tools/headrace/bench/job_result.h"
#include "tools/headrace/bench/latency_histogram.h"
#include "tools/headrace/bench/measurement_log.h"
#include "tools/headrace/bench/offset_generator.h"
#include "tools/headrace/bench/verify_block.h"

namespace headrace::bench {
namespace {

TEST(Offsets, ARandomPassVisitsEachBlockOnce) {
  for (const std::uint64_t blocks : {1ull, 2ull, 3ull, 5ull, 64ull, 65ull, 1000ull, 4097ull, 100'003ull}) {
    for (const std::uint64_t seed : {0ull, 1ull, 99ull}) {
      const OffsetGenerator offsets(blocks, true, false, seed);
      std::vector<bool> visited(blocks);
      for (std::uint64_t i = 0; i < blocks; ++i) {
        const std::uint64_t block = offsets.block(seed, i);
        ASSERT_LT(block, blocks);
        ASSERT_FALSE(visited[block]) << block << " of " << blocks;
        visited[block] = true;
      }
    }
  }
}

TEST(Offsets, PassesAndSeedsDifferAndRepeatExactly) {
  const OffsetGenerator a(1000, true, false, 1), again(1000, true, false, 1), b(1000, true, false, 2);
  int same_pass = 0, same_seed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a.block(3, i), again.block(3, i));
    same_pass += a.block(0, i) == a.block(1, i) ? 1 : 0;
    same_seed += a.block(0, i) == b.block(0, i) ? 1 : 0;
  }
  EXPECT_LT(same_pass, 20);
  EXPECT_LT(same_seed, 20);
}

TEST(Offsets, RandomIsSpreadEvenly) {
  // The first tenth of a pass should visit each tenth of the region about equally often.
  const OffsetGenerator offsets(1u << 20, true, false, 7);
  std::vector<int> tenths(10);
  constexpr int kDraws = 100'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) ++tenths[static_cast<std::size_t>(offsets.block(0, i) * 10 >> 20)];
  for (const int count : tenths) EXPECT_NEAR(count, kDraws / 10, kDraws / 100);
}

TEST(Offsets, WithoutAMapBlocksRepeat) {
  const OffsetGenerator offsets(1000, true, true, 1);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_LT(offsets.block(0, i), 1000u);
    seen.insert(offsets.block(0, i));
  }
  EXPECT_GT(seen.size(), 500u);
  EXPECT_LT(seen.size(), 800u);
  const OffsetGenerator sequential(10, false, false, 1);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(sequential.block(5, i), i);
}

TEST(Histogram, PercentilesAreWithinOnePercent) {
  for (const double scale : {1.0, 37.0, 1e3, 1e6, 1e12}) {
    LatencyHistogram histogram;
    std::vector<std::uint64_t> samples;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      samples.push_back(static_cast<std::uint64_t>(scale * (1 + static_cast<double>(mix64(i) % 100'000) / 1000)));
      histogram.add(samples.back());
    }
    std::sort(samples.begin(), samples.end());
    for (const double percent : {0.1, 1.0, 50.0, 99.0, 99.99, 100.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(samples.size()))) - 1;
      const auto truth = static_cast<double>(samples[rank]);
      EXPECT_NEAR(static_cast<double>(histogram.percentile(percent)), truth, truth * 0.01 + 1)
          << scale << " " << percent;
    }
    EXPECT_EQ(histogram.min(), samples.front());
    EXPECT_EQ(histogram.max(), samples.back());
  }
}

TEST(Histogram, ExtremesAndNothing) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile(50), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  histogram.add(0);
  histogram.add(UINT64_MAX);
  EXPECT_EQ(histogram.percentile(50), 0u);
  EXPECT_GT(histogram.percentile(100), UINT64_MAX / 100 * 99);
  EXPECT_EQ(histogram.max(), UINT64_MAX);
}

TEST(Histogram, MergingEqualsAddingAll) {
  LatencyHistogram all, odd, even;
  double sum = 0, squares = 0;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    all.add(i * i);
    (i % 2 == 0 ? even : odd).add(i * i);
    sum += static_cast<double>(i * i);
  }
  for (std::uint64_t i = 1; i <= 1000; ++i) squares += std::pow(static_cast<double>(i * i) - sum / 1000, 2);
  odd.merge(even);
  odd.merge(LatencyHistogram());
  EXPECT_EQ(odd.count(), 1000u);
  EXPECT_NEAR(odd.mean(), sum / 1000, 1e-6 * sum);
  EXPECT_NEAR(odd.stddev(), std::sqrt(squares / 999), 1);
  EXPECT_NEAR(all.stddev(), std::sqrt(squares / 999), 1);
  for (const double percent : {1.0, 50.0, 99.0}) EXPECT_EQ(odd.percentile(percent), all.percentile(percent));
  std::uint64_t counted = 0, last = 0;
  odd.for_each_bucket([&](std::uint64_t middle, std::uint64_t count) {
    EXPECT_TRUE(counted == 0 || middle > last);
    last = middle;
    counted += count;
  });
  EXPECT_EQ(counted, 1000u);
}

TEST(Crc32c, StandardVectorsInAnySplit) {
  const std::string digits = "123456789";
  const auto bytes = std::as_bytes(std::span(digits.data(), digits.size()));
  EXPECT_EQ(crc32c(bytes), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8A9136AAu);
  std::vector<std::byte> longer(100);
  for (std::size_t i = 0; i < longer.size(); ++i) longer[i] = static_cast<std::byte>(i * 7);
  for (std::size_t cut = 0; cut <= longer.size(); ++cut) {
    const std::span<const std::byte> all(longer);
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all));
  }
}

constexpr std::uint64_t kSeed = 5, kOffset = 1 << 20;

std::vector<std::byte> verify_block(std::uint64_t offset, std::uint64_t seed, std::uint64_t sequence,
                                    std::size_t bytes = 4096) {
  std::vector<std::byte> block(bytes);
  fill_verify_block(block, offset, seed, sequence);
  return block;
}

TEST(Verify, GoodBlocksOfAnySizePass) {
  for (const std::size_t bytes : {64u, 65u, 71u, 512u, 4096u, 1u << 20}) {
    VerifyChecker checker(kSeed);
    EXPECT_FALSE(checker.check(verify_block(kOffset, kSeed, 3, bytes), kOffset, 3)) << bytes;
  }
  EXPECT_EQ(verify_block_sequence(verify_block(kOffset, kSeed, 3), kOffset, kSeed), 3u);
  EXPECT_FALSE(verify_block_sequence(verify_block(kOffset, kSeed, 3), kOffset + 1, kSeed));
  EXPECT_FALSE(verify_block_sequence(std::vector<std::byte>(39), 0, 0));
}

TEST(Verify, AFlippedBitIsFoundWhereverItIs) {
  auto block = verify_block(kOffset, kSeed, 3, 256);
  for (const std::uint64_t known : {0ull, 3ull}) {
    for (std::size_t bit = 0; bit < block.size() * 8; ++bit) {
      block[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      VerifyChecker checker(kSeed);
      // First a good block, as in a read of many blocks: the pass is known from then on.
      EXPECT_FALSE(checker.check(verify_block(0, kSeed, 3, 256), 0, known));
      const auto fault = checker.check(block, kOffset, known);
      ASSERT_TRUE(fault) << bit;
      EXPECT_EQ(fault->kind, FaultKind::kFlipped) << bit;
      EXPECT_EQ(fault->offset_bytes, kOffset + bit / 8);
      EXPECT_EQ(fault->found.size(), 4u) << fault->found;  // one byte: "0x2a"
      block[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
  }
}

TEST(Verify, AMisplacedBlockNamesWhereItBelongs) {
  VerifyChecker checker(kSeed);
  const auto fault = checker.check(verify_block(8192, kSeed, 3), kOffset, 3);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kMisplaced);
  EXPECT_EQ(fault->offset_bytes, kOffset);
  EXPECT_NE(fault->expected.find("offset 1048576"), std::string::npos);
  EXPECT_NE(fault->found.find("offset 8192"), std::string::npos);
  EXPECT_EQ(checker.check(verify_block(kOffset, kSeed + 1, 3), kOffset, 3)->kind, FaultKind::kMisplaced);
}

TEST(Verify, AStaleBlockIsFoundWhicheverComesFirst) {
  for (const bool old_first : {false, true}) {
    VerifyChecker checker(kSeed);
    const auto good = verify_block(4096, kSeed, 9), old = verify_block(kOffset, kSeed, 8);
    std::optional<VerifyFault> fault;
    if (old_first) {
      EXPECT_FALSE(checker.check(old, kOffset, 0));
      fault = checker.check(good, 4096, 0);
    } else {
      EXPECT_FALSE(checker.check(good, 4096, 0));
      fault = checker.check(old, kOffset, 0);
    }
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind, FaultKind::kStale);
    EXPECT_EQ(fault->offset_bytes, kOffset);
    EXPECT_NE(fault->expected.find("sequence 9"), std::string::npos);
    EXPECT_NE(fault->found.find("sequence 8"), std::string::npos);
    EXPECT_FALSE(checker.check(verify_block(0, kSeed, 9), 0, 0));
  }
  VerifyChecker exact(kSeed);
  EXPECT_EQ(exact.check(verify_block(0, kSeed, 1), 0, 2)->kind, FaultKind::kStale);
}

TEST(Verify, BlocksOfOtherWritersAreForeign) {
  VerifyChecker checker(kSeed);
  const auto zeros = checker.check(std::vector<std::byte>(4096), 0, 0);
  ASSERT_TRUE(zeros);
  EXPECT_EQ(zeros->kind, FaultKind::kForeign);
  EXPECT_EQ(zeros->found, "only zeros");
  EXPECT_EQ(checker.check(std::vector<std::byte>(4096, std::byte{'x'}), 0, 0)->kind, FaultKind::kForeign);
}

// A request that ends a microsecond after the start of a window does not get a rate of its own.
TEST(Logs, ABriefLastWindowIsAddedToTheOneBefore) {
  const support::TempDir folder;
  LogOptions options;
  options.bw = options.iops = options.lat = folder / "log";
  options.average_seconds = 0.1;
  constexpr std::uint64_t kMs = 1'000'000, kBegin = 5'000 * kMs;
  for (const std::uint64_t rest : {kMs / 1000, 49 * kMs, 51 * kMs}) {
    for (const bool write : {false, true}) {
      MeasurementLog log(options);
      log.start(kBegin);
      // One request every 10 ms. The one at 100 ms starts a window, which also contains the last one.
      for (std::uint64_t i = 1; i <= 10; ++i) log.add({kBegin + i * 10 * kMs, 1, 2, 3, 1024, 1, 0, write});
      log.finish(kBegin + 100 * kMs + rest);
      ASSERT_TRUE(log.write("job", 1).ok());
      std::ifstream file(folder / "log_bw.1.log");
      std::vector<std::uint64_t> rates;
      for (std::string line; std::getline(file, line);) rates.push_back(std::stoull(line.substr(line.find(", ") + 2)));
      if (rest < 50 * kMs) {
        ASSERT_EQ(rates.size(), 1u);
        EXPECT_EQ(rates[0], 10'000 * kMs / (100 * kMs + rest));
      } else {
        ASSERT_EQ(rates.size(), 2u);
        EXPECT_EQ(rates[0], 90u);
        EXPECT_EQ(rates[1], 1000 * kMs / rest);
      }
    }
  }
  // The first window has no window before it.
  MeasurementLog brief(options);
  brief.start(kBegin);
  brief.add({kBegin + kMs, 1, 2, 3, 1024, 1, 0, false});
  brief.finish(kBegin + 2 * kMs);
  ASSERT_TRUE(brief.write("job", 2).ok());
  std::ifstream file(folder / "log_bw.2.log");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "2, 500, 0, 0, 0");
}

TEST(Text, RatesNameWhatTheyMeasure) {
  EXPECT_EQ(rate_text(2'000'000'000, 0.5, BytesOf::kReadFromFiles), "4.00 GB/s read from files");
  JobResult result;
  result.options.name = "job";
  result.read.requests = result.read.ios = 10;
  result.read.bytes = 10'000'000;
  result.seconds = 0.001;
  result.stats.bus_bytes = 10'000'000;
  BenchOutcome outcome;
  outcome.results = {result, result};
  outcome.groups = {merge_results(outcome.results)};
  const std::string text = bench_text(outcome);
  std::size_t rates = 0;
  for (std::size_t at = text.find("B/s"); at != std::string::npos; at = text.find("B/s", at + 1), ++rates) {
    const std::string after = text.substr(at + 3, 16);
    EXPECT_TRUE(after == " read from files" || after.substr(0, 13) == " over the bus") << after;
  }
  EXPECT_EQ(rates, 5u);
}

TEST(Results, MergingAddsCountsAndKeepsTheLongestTime) {
  JobResult a, b;
  a.read.bytes = 1000;
  b.write.bytes = 500;
  a.seconds = 2;
  b.seconds = 3;
  a.read.ios = b.write.ios = 7;
  a.stats.mapped_bytes = 1000;
  b.stats.direct_bytes = 500;
  b.verify.bad = 2;
  b.verify.faults.resize(2);
  b.status = Status(Code::kIo, Layer::kApi, "broken");
  const JobResult sum = merge_results({a, b});
  EXPECT_EQ(sum.threads, 2u);
  EXPECT_EQ(sum.bytes(), 1500u);
  EXPECT_EQ(sum.seconds, 3);
  EXPECT_EQ(sum.ios(), 14u);
  EXPECT_EQ(sum.stats.mapped_bytes, 1000u);
  EXPECT_EQ(sum.stats.direct_bytes, 500u);
  EXPECT_EQ(sum.verify.bad, 2u);
  EXPECT_EQ(sum.status.code(), Code::kIo);
}

}  // namespace
}  // namespace headrace::bench
