#include "statistics/running_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace headrace::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> some_numbers(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> numbers(3, 1.5);
  std::vector<double> out(count);
  for (double& number : out) number = numbers(random) - 40;
  return out;
}

// Adds the numbers in pieces of any length to several parts, which are merged at the end.
RunningStatistics in_pieces(const std::vector<double>& numbers, bool quantiles) {
  std::mt19937 random(7);
  std::vector<RunningStatistics> parts(3, RunningStatistics(quantiles));
  for (std::size_t at = 0; at < numbers.size();) {
    const std::size_t most = random() % 3 == 0 ? 20'000 : 100;
    const std::size_t count = std::min<std::size_t>(1 + random() % most, numbers.size() - at);
    parts[random() % 3].add({numbers.data() + at, count});
    at += count;
  }
  parts[0].flush();
  parts[0].merge(parts[1]);
  parts[0].merge(parts[2]);
  return parts[0];
}

TEST(RunningStatistics, AreThoseOfAllNumbers) {
  for (const std::size_t count : {1u, 2u, 63u, 64u, 5'000u, 300'000u}) {
    std::vector<double> numbers = some_numbers(count, 1);
    long double sum = 0, squares = 0;
    for (const double number : numbers) sum += number;
    const auto mean = static_cast<double>(sum / static_cast<long double>(count));
    for (const double number : numbers) squares += (number - mean) * (number - mean);
    const double deviation = std::sqrt(static_cast<double>(squares / static_cast<long double>(count)));
    const RunningStatistics got = in_pieces(numbers, false);
    EXPECT_EQ(got.count(), count);
    EXPECT_NEAR(got.mean(), mean, 1e-12 * (std::abs(mean) + deviation));
    EXPECT_NEAR(got.std(), deviation, 1e-12 * (std::abs(mean) + deviation));
    EXPECT_EQ(got.min(), *std::min_element(numbers.begin(), numbers.end()));
    EXPECT_EQ(got.max(), *std::max_element(numbers.begin(), numbers.end()));
  }
}

// The sum of squares minus the square of the sum would have no correct digit.
TEST(RunningStatistics, AreRightFarFromZero) {
  std::vector<double> numbers = some_numbers(100'000, 2);
  const double deviation = in_pieces(numbers, false).std();
  for (double& number : numbers) number += 1e9;
  EXPECT_NEAR(in_pieces(numbers, false).std(), deviation, 1e-6 * deviation);
}

TEST(RunningStatistics, CountNanAndLeaveItOut) {
  std::vector<double> numbers = some_numbers(10'000, 3), with_nan;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    with_nan.push_back(numbers[i]);
    if (i % 3 == 0) with_nan.push_back(kNan);
  }
  const RunningStatistics plain = in_pieces(numbers, true), got = in_pieces(with_nan, true);
  EXPECT_EQ(got.missing(), 3334u);
  EXPECT_EQ(got.count(), plain.count());
  EXPECT_NEAR(got.mean(), plain.mean(), 1e-12 * plain.std());
  EXPECT_EQ(got.max(), plain.max());
  RunningStatistics nothing(true);
  nothing.add(std::vector<double>(100, kNan));
  nothing.add(std::vector<double>(3, kNan));
  nothing.flush();
  EXPECT_EQ(nothing.missing(), 103u);
  for (const double value : {nothing.mean(), nothing.std(), nothing.min(), nothing.max(), nothing.quantile(0.5)})
    EXPECT_TRUE(std::isnan(value));
}

TEST(QuantileSketch, RanksAreOffByLittle) {
  for (const std::size_t count : {100u, 4'096u, 100'000u, 3'000'000u}) {
    std::vector<double> numbers = some_numbers(count, 4);
    for (const bool ascending : {false, true}) {
      if (ascending) std::sort(numbers.begin(), numbers.end());
      const RunningStatistics got = in_pieces(numbers, true);
      std::vector<double> sorted = numbers;
      std::sort(sorted.begin(), sorted.end());
      double levels = 1;
      for (std::size_t n = count; n > QuantileSketch::kLevel; n /= 2) ++levels;
      // A rank is an integer; the numbers that the sketch leaves out shift it.
      const double most = (count < QuantileSketch::kLevel ? 0 : levels / (2.0 * QuantileSketch::kLevel)) +
                          1.0 / static_cast<double>(count - 1);
      for (const double share : {0.0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
        const auto rank = std::lower_bound(sorted.begin(), sorted.end(), got.quantile(share)) - sorted.begin();
        EXPECT_NEAR(static_cast<double>(rank) / static_cast<double>(count - 1), share, most + 1e-9)
            << count << " numbers, share " << share;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::cli
