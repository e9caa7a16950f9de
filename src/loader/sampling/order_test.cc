// Orders visit the required samples, look random where they should, and never change, because states refer to them.
#include <gtest/gtest.h>
#include <headrace/order.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "loader/sampling/alias_table.h"
#include "loader/sampling/permutation.h"

namespace headrace {
namespace {

using loader::Permutation;

std::vector<std::uint64_t> all_of(const Order& order, std::uint64_t seed = 1, std::uint64_t epoch = 0) {
  const EpochOrder of_epoch = order.epoch(seed, epoch);
  std::vector<std::uint64_t> samples(order.positions());
  for (std::uint64_t i = 0; i < samples.size(); ++i) samples[i] = of_epoch.sample(i);
  return samples;
}

bool is_permutation_of_all(std::vector<std::uint64_t> samples) {
  std::sort(samples.begin(), samples.end());
  for (std::uint64_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != i) return false;
  }
  return true;
}

std::string refusal(const Result<Order>& order) { return order.ok() ? "accepted" : order.status().message(); }

TEST(CounterRandom, IsPhilox) {
  // Test vectors of the authors' library.
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(loader::philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(loader::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(loader::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Permutation, IsABijectionOfEverySmallNumber) {
  for (std::uint64_t n = 1; n <= 1100; ++n) {
    const Permutation permutation(n, loader::round_keys(n));
    std::vector<std::uint64_t> values(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      values[i] = permutation(i);
      ASSERT_EQ(permutation.inverse(values[i]), i) << n;
    }
    ASSERT_TRUE(is_permutation_of_all(std::move(values))) << n;
  }
}

TEST(Permutation, OfLargeNumbersIsInvertedWhereSampled) {
  std::mt19937_64 random(5);
  for (int bits = 10; bits <= 63; ++bits) {
    for (const std::uint64_t n :
         {(std::uint64_t{1} << bits) - 1, std::uint64_t{1} << bits, (std::uint64_t{1} << bits) / 3 * 2 + 1}) {
      const Permutation permutation(n, loader::round_keys(random()));
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t index = i == 0 ? n - 1 : random() % n;
        const std::uint64_t value = permutation(index);
        ASSERT_LT(value, n);
        ASSERT_EQ(permutation.inverse(value), index);
        ASSERT_EQ(permutation(permutation.inverse(index)), index);
      }
    }
  }
}

// Chi-square tests of 120 permutations of 5, and of the places of 10; fair draws exceed the limits once in 10^6.
TEST(Permutation, OfAFewIsAnyOfThemWithEqualProbability) {
  constexpr int kDraws = 48'000;
  std::map<std::vector<std::uint64_t>, int> counts;
  std::array<std::array<int, 10>, 10> goes{};
  const Order five = Order::full_shuffle(5).value(), ten = Order::full_shuffle(10).value();
  for (std::uint64_t epoch = 0; epoch < kDraws; ++epoch) {
    ++counts[all_of(five, 3, epoch)];
    if (epoch % 4 != 0) continue;
    const auto samples = all_of(ten, 3, epoch);
    for (std::size_t i = 0; i < 10; ++i) ++goes[i][samples[i]];
  }
  ASSERT_EQ(counts.size(), 120u);
  double sum = 0;
  for (const auto& [order, count] : counts) sum += std::pow(count - kDraws / 120.0, 2) / (kDraws / 120.0);
  EXPECT_LT(sum, 207);
  sum = 0;
  for (const auto& row : goes) {
    for (const int count : row) sum += std::pow(count - kDraws / 40.0, 2) / (kDraws / 40.0);
  }
  EXPECT_LT(sum, 156);  // 81 degrees of freedom
}

TEST(Permutation, OfAFewIsEvenHalfTheTime) {
  for (const std::uint64_t n : {8, 16, 31, 64}) {
    const Order few = Order::full_shuffle(n).value();
    int even = 0;
    for (std::uint64_t epoch = 0; epoch < 4000; ++epoch) {
      auto samples = all_of(few, 3, epoch);
      int swaps = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        for (; samples[i] != i; ++swaps) std::swap(samples[i], samples[samples[i]]);
      }
      even += swaps % 2 == 0;
    }
    EXPECT_NEAR(even, 2000, 160) << n;  // 5 standard deviations
  }
}

TEST(Order, SequentialIsEveryPosition) {
  EXPECT_EQ(all_of(Order::sequential(5).value()), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

TEST(Order, FullShuffleIsAnotherPermutationForEachSeedAndEpoch) {
  const Order order = Order::full_shuffle(1000).value();
  std::set<std::vector<std::uint64_t>> orders;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (const std::uint64_t epoch : {0, 1, 2}) {
      const auto samples = all_of(order, seed, epoch);
      EXPECT_TRUE(is_permutation_of_all(samples));
      EXPECT_EQ(samples, all_of(Order::full_shuffle(1000).value(), seed, epoch));
      orders.insert(samples);
    }
  }
  EXPECT_EQ(orders.size(), 9u);
}

TEST(Order, FullShuffleHasNoCorrelations) {
  constexpr std::uint64_t kSamples = 100'000;
  const auto samples = all_of(Order::full_shuffle(kSamples).value());
  const double mean = (kSamples - 1) / 2.0, variance = (1.0 * kSamples * kSamples - 1) / 12;
  for (const std::uint64_t lag : {1, 2, 64, 1024}) {
    double sum = 0;
    for (std::uint64_t i = 0; i + lag < kSamples; ++i) {
      sum += (static_cast<double>(samples[i]) - mean) * (static_cast<double>(samples[i + lag]) - mean);
    }
    EXPECT_LT(std::abs(sum / variance / static_cast<double>(kSamples - lag)), 5 / std::sqrt(1.0 * kSamples)) << lag;
  }
  double displacement = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i)
    displacement += std::abs(static_cast<double>(samples[i]) - static_cast<double>(i));
  EXPECT_NEAR(displacement / kSamples / kSamples, 1.0 / 3, 0.005);
}

TEST(Order, OfTheLargestNumberStaysBelow) {
  const std::uint64_t most = std::uint64_t{1} << 63;
  for (const Order& order : {Order::full_shuffle(most).value(), Order::sequential(most).value(),
                             Order::block_shuffle({{most}, {most / 3}, 2}).value(),
                             Order::block_shuffle({{most / 4, 4}, {1000, 3}, ~0ull}).value()}) {
    ASSERT_EQ(order.positions(), most);
    std::set<std::uint64_t> samples;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      for (const std::uint64_t position : {i, most - 1 - i}) {
        const std::uint64_t sample = order.epoch(1, 1).sample(position);
        ASSERT_LT(sample, most);
        samples.insert(sample);
      }
    }
    EXPECT_EQ(samples.size(), 2000u);
  }
}

TEST(BlockShuffle, IsAPermutationOfEveryGrid) {
  std::mt19937_64 random(7);
  const auto up_to = [&](std::uint64_t most) { return 1 + random() % most; };
  for (int i = 0; i < 1500; ++i) {
    BlockShuffle options;
    for (std::uint64_t axes = random() % 4; axes > 0; --axes) {
      options.grid.push_back(up_to(13));
      options.group.push_back(up_to(15));
    }
    options.groups_in_buffer = up_to(9);
    if (i % 2 == 1) {
      std::uint64_t samples = 1, group = 1;
      for (std::size_t k = 0; k < options.grid.size(); ++k) {
        samples *= options.grid[k];
        group *= std::min(options.grid[k], options.group[k]);
      }
      options.partitions = up_to((samples + group - 1) / group);
      options.partition_run = up_to(40);
    }
    ASSERT_TRUE(is_permutation_of_all(all_of(Order::block_shuffle(options).value(), random(), random())))
        << ::testing::PrintToString(options.grid) << ::testing::PrintToString(options.group) << options.groups_in_buffer
        << " " << options.partitions << " " << options.partition_run;
  }
}

// In one dimension a buffer has whole groups, wherever the shorter last group is.
TEST(BlockShuffle, ABufferHasTheSamplesOfItsGroups) {
  constexpr std::uint64_t kSamples = 1003, kGroup = 10, kGroups = 101, kBuffer = 4;
  const Order order = Order::block_shuffle({{kSamples}, {kGroup}, kBuffer}).value();
  std::set<std::uint64_t> places_of_last;
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    const auto samples = all_of(order, 9, epoch);
    std::uint64_t at = 0;
    std::set<std::uint64_t> seen;
    for (std::uint64_t first = 0; first < kGroups; first += kBuffer) {
      std::map<std::uint64_t, std::uint64_t> taken;
      const std::uint64_t groups = std::min(kBuffer, kGroups - first);
      const auto complete = [&] {
        if (taken.size() != groups) return false;
        for (const auto& [group, count] : taken) {
          if (count != (group == kGroups - 1 ? 3 : kGroup)) return false;
        }
        return true;
      };
      while (at < kSamples && !complete()) {
        const std::uint64_t group = samples[at] / kGroup;
        if (group == kGroups - 1) places_of_last.insert(at / 100);
        ++taken[group];
        ++at;
      }
      ASSERT_TRUE(complete()) << "buffer at " << first << " of epoch " << epoch;
      for (const auto& [group, count] : taken) ASSERT_TRUE(seen.insert(group).second);
    }
    EXPECT_EQ(at, kSamples);
  }
  EXPECT_GT(places_of_last.size(), 7u) << "the last group has a place of its own";
}

// Each reader group takes the same groups of samples in every epoch, and all of them together take each once.
TEST(BlockShuffle, PartitionsStayTheSameInEveryEpoch) {
  constexpr std::uint64_t kSamples = 1003, kGroup = 10, kPartitions = 4, kRun = 8;
  BlockShuffle options{{kSamples}, {kGroup}, 3};
  options.partitions = kPartitions;
  options.partition_run = kRun;
  const Order order = Order::block_shuffle(options).value();
  std::vector<std::uint64_t> first_epoch;
  std::array<std::set<std::uint64_t>, kPartitions> groups;
  std::uint64_t strangers = 0;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    const auto samples = all_of(order, 7, epoch);
    ASSERT_TRUE(is_permutation_of_all(samples));
    EXPECT_NE(samples, first_epoch);
    if (epoch == 0) first_epoch = samples;
    // 25 or 26 groups in each part, one of which has only 3 samples: 30 runs of each part take turns.
    for (std::uint64_t i = 0; i < 30 * kRun * kPartitions; ++i) {
      std::set<std::uint64_t>& own = groups[i / kRun % kPartitions];
      if (epoch < 10) {
        own.insert(samples[i] / kGroup);
      } else if (own.count(samples[i] / kGroup) == 0) {
        ++strangers;
      }
    }
  }
  EXPECT_EQ(strangers, 0u);
  std::size_t all = 0;
  for (const auto& own : groups) all += own.size();
  EXPECT_EQ(all, 101u) << "a group is in two partitions, or in none";
  // Another seed divides differently.
  const auto other = all_of(order, 8, 0);
  EXPECT_FALSE(std::all_of(other.begin(), other.begin() + kRun,
                           [&](std::uint64_t sample) { return groups[0].count(sample / kGroup) != 0; }));
}

TEST(BlockShuffle, ABufferOfAPartitionHasTheSamplesOfItsGroups) {
  BlockShuffle options{{1000}, {10}, 5};
  options.partitions = 2;
  options.partition_run = 10;
  const Order order = Order::block_shuffle(options).value();
  EXPECT_EQ(order.buffer_positions(), 100u);
  const auto samples = all_of(order);
  for (std::uint64_t buffer = 0; buffer < 10; ++buffer) {
    std::array<std::map<std::uint64_t, int>, 2> taken;
    for (std::uint64_t i = buffer * 100; i < buffer * 100 + 100; ++i) ++taken[i / 10 % 2][samples[i] / 10];
    for (const auto& groups : taken) EXPECT_EQ(groups.size(), 5u);
  }
}

// With whole boxes, each group is one box of the grid.
TEST(BlockShuffle, GroupsAreBoxesOfTheGrid) {
  const Order order = Order::block_shuffle({{8, 6, 10}, {4, 3, 5}, 1}).value();
  for (const std::uint64_t epoch : {0, 1, 2}) {
    const auto samples = all_of(order, 1, epoch);
    for (std::uint64_t group = 0; group < 8; ++group) {
      std::set<std::uint64_t> boxes;
      for (std::uint64_t i = group * 60; i < group * 60 + 60; ++i) {
        boxes.insert(samples[i] / 60 / 4 * 4 + samples[i] / 10 % 6 / 3 * 2 + samples[i] % 10 / 5);
      }
      ASSERT_EQ(boxes.size(), 1u);
    }
  }
}

TEST(BlockShuffle, MovesGroupsAndSamplesOfABuffer) {
  const auto samples = all_of(Order::block_shuffle({{100'000}, {32}, 16}).value());
  // Groups may be anywhere. Successive samples share a group as often as chance predicts, 1 in 16.
  double displacement = 0;
  int same_group = 0;
  for (std::uint64_t i = 0; i < samples.size(); ++i) {
    displacement += std::abs(static_cast<double>(samples[i]) - static_cast<double>(i));
    same_group += i > 0 && samples[i] / 32 == samples[i - 1] / 32;
  }
  EXPECT_NEAR(displacement / 1e10, 1.0 / 3, 0.03);
  EXPECT_NEAR(same_group / 1e5, 1.0 / 16, 0.006);
}

TEST(Order, ListsAreGivenOrShuffled) {
  const std::vector<std::uint64_t> ids = {7, 3, 3, 0, 9};
  EXPECT_EQ(all_of(Order::list(ids, 10, false).value(), 5, 5), ids);
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    auto samples = all_of(Order::list(ids, 10, true).value(), 5, epoch);
    orders.insert(samples);
    std::sort(samples.begin(), samples.end());
    EXPECT_EQ(samples, (std::vector<std::uint64_t>{0, 3, 3, 7, 9}));
  }
  EXPECT_GT(orders.size(), 10u);
}

TEST(Order, WeightedDrawsFollowTheWeights) {
  const std::vector<double> weights = {1, 0, 3, 0.5, 2.5, 0, 3};
  const Order order = Order::weighted(weights, {200'000}).value();
  EXPECT_EQ(order.positions(), 200'000u);
  EXPECT_EQ(order.samples(), 7u);
  std::array<double, 7> counts{};
  for (const std::uint64_t sample : all_of(order, 3, 1)) ++counts.at(sample);
  double sum = 0;
  for (std::size_t i = 0; i < 7; ++i) {
    if (weights[i] == 0) {
      EXPECT_EQ(counts[i], 0);
      continue;
    }
    sum += std::pow(counts[i] - weights[i] * 20'000, 2) / (weights[i] * 20'000);
  }
  EXPECT_LT(sum, 34);  // 4 degrees of freedom; a fair draw exceeds it once in 10^6
  EXPECT_NE(all_of(order, 3, 1), all_of(order, 3, 2));
  EXPECT_EQ(all_of(Order::weighted({0, 4, 0}, {9}).value()), std::vector<std::uint64_t>(9, 1));
  EXPECT_EQ(Order::weighted({1, 1}).value().positions(), 2u);
}

// Every number's share of all columns, computed exactly, is its weight.
TEST(AliasTable, HasEveryWeightExactly) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> weights(1 + random() % 40);
    double total = 0;
    for (double& weight : weights) {
      weight = random() % 4 == 0 ? 0 : std::ldexp(1, static_cast<int>(random() % 12));
      total += weight;
    }
    if (total == 0) continue;
    if (weights.front() == 0) {
      // The smallest random words must not draw a number of weight 0.
      EXPECT_NE(loader::AliasTable::create(weights, nullptr).value().draw(0, 0), 0u);
    }
    const auto table = loader::AliasTable::create(weights, nullptr).value();
    const auto shares = table.shares();
    for (std::size_t at = 0; at < weights.size(); ++at) {
      // Powers of two are not rounded.
      EXPECT_EQ(static_cast<double>(shares.units.at(at)) / static_cast<double>(shares.total), weights[at] / total);
    }
  }
}

TEST(Order, MisuseNamesTheParameter) {
  EXPECT_EQ(refusal(Order::sequential(0)), "samples: there are none");
  EXPECT_EQ(refusal(Order::full_shuffle((std::uint64_t{1} << 63) + 1)), "samples: more than 2^63");
  EXPECT_EQ(refusal(Order::list({}, 5, false)), "ids: there are none");
  EXPECT_EQ(refusal(Order::list({0, 5}, 5, false)), "ids: number 1 is sample 5 of 5");
  EXPECT_EQ(refusal(Order::block_shuffle({{5}, {1, 2}, 1})), "group: 2 dimensions, but grid has 1");
  EXPECT_EQ(refusal(Order::block_shuffle({{0}, {1}, 1})), "grid: no samples along dimension 0");
  EXPECT_EQ(refusal(Order::block_shuffle({{1}, {0}, 1})), "group: 0 along dimension 0");
  EXPECT_EQ(refusal(Order::block_shuffle({{1}, {1}, 0})), "groups_in_buffer: 0");
  EXPECT_EQ(refusal(Order::block_shuffle({{9}, {2}, 1, 0, 1})), "partitions: 0");
  EXPECT_EQ(refusal(Order::block_shuffle({{9}, {2}, 1, 6, 1})),
            "partitions: 6, but the samples have only 5 groups that share chunks");
  EXPECT_EQ(refusal(Order::block_shuffle({{9}, {2}, 1, 5, 0})), "partition_run: 0");
  EXPECT_EQ(refusal(Order::block_shuffle({{9}, {2}, 1, 5, ~0ull})), "accepted");
  EXPECT_EQ(refusal(Order::block_shuffle({{~0ull, ~0ull}, {1, 1}, 1})), "grid: more than 2^63 samples");
  EXPECT_EQ(refusal(Order::block_shuffle({std::vector<std::uint64_t>(34, 1), std::vector<std::uint64_t>(34, 1), 1})),
            "grid: 34 dimensions, at most 33");
  EXPECT_EQ(refusal(Order::weighted({})), "weights: there are none");
  EXPECT_EQ(refusal(Order::weighted({0, 0})), "weights: all are 0");
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(refusal(Order::weighted({1, wrong})), "weights: number 1 is negative, infinite or NaN");
  }
  EXPECT_EQ(refusal(Order::weighted({1}, {~0ull})), "draws: more than 2^63");
  const auto large = Order::weighted(std::vector<double>(1000, 1), {0, 15'999});
  EXPECT_EQ(large.status().code(), Code::kResourceExhausted);
  EXPECT_NE(refusal(large).find("WeightOptions::table_bytes"), std::string::npos) << refusal(large);
  EXPECT_TRUE(Order::weighted(std::vector<double>(1000, 1), {0, 16'000}).ok());
}

TEST(Order, SchemasDifferInWhatDiffers) {
  using Names = std::vector<std::string>;
  const LoaderSchema schema = Order::block_shuffle({{100}, {10}, 2}).value().schema();
  const auto differs = [&](const Result<Order>& other) { return schema.differences(other.value().schema()); };
  EXPECT_EQ(differs(Order::block_shuffle({{100}, {10}, 2})), Names{});
  EXPECT_EQ(differs(Order::block_shuffle({{100}, {10}, 3})), Names{"order"});
  EXPECT_EQ(differs(Order::block_shuffle({{100}, {5}, 2})), Names{"order"});
  EXPECT_EQ(differs(Order::block_shuffle({{100}, {10}, 2, 2, 8})), Names{"order"});
  EXPECT_EQ(differs(Order::full_shuffle(100)), Names{"order"});
  EXPECT_EQ(differs(Order::full_shuffle(101)), (Names{"order", "positions", "samples"}));
  const LoaderSchema list = Order::list({1, 2}, 5, true).value().schema();
  EXPECT_EQ(list.differences(Order::list({2, 1}, 5, true).value().schema()), Names{"order"});
  EXPECT_EQ(list.differences(Order::list({1, 2}, 5, false).value().schema()), Names{"order"});
  const LoaderSchema weights = Order::weighted({1, 2}).value().schema();
  EXPECT_EQ(weights.differences(Order::weighted({1, 3}).value().schema()), Names{"order"});
  EXPECT_EQ(weights.differences(Order::weighted({1, 2}, {3}).value().schema()), Names{"positions"});
}

// States depend on these values. If one changes, kOrderVersion must change.
TEST(Order, IsTheSameInEveryVersionAndOnEveryMachine) {
  const auto first = [](const Order& order) {
    std::string text;
    for (std::uint64_t i = 0; i < 6; ++i) text += std::to_string(order.epoch(42, 3).sample(i)) + " ";
    return text;
  };
  EXPECT_EQ(first(Order::full_shuffle(1'000'000).value()), "15827 796215 990047 461954 303086 826629 ");
  EXPECT_EQ(first(Order::block_shuffle({{1000, 30}, {10, 30}, 4}).value()), "2078 2094 28798 25824 2097 6454 ");
  EXPECT_EQ(first(Order::block_shuffle({{1000, 30}, {10, 30}, 4, 3, 2}).value()), "5905 5894 24281 9725 9077 9233 ");
  EXPECT_EQ(first(Order::weighted({1, 2, 3, 4, 5}, {6}).value()), "4 2 4 3 4 4 ");
}

}  // namespace
}  // namespace headrace
