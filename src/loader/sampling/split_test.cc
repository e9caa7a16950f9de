// Ranks together take every position once, in equally many batches of one size; divided windows count leaks correctly.
#include <gtest/gtest.h>
#include <headrace/split.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>

namespace headrace {
namespace {

std::string refusal(const Result<Split>& split) { return split.ok() ? "accepted" : split.status().message(); }

// How often each position is taken, over all groups and batches.
std::map<std::uint64_t, int> taken(SplitOptions options, std::uint64_t positions, std::uint64_t consumed = 0) {
  std::map<std::uint64_t, int> counts;
  for (options.rank = 0; options.rank < options.world; options.rank += options.reader_group) {
    const Split split = Split::create(options, positions, consumed).value();
    for (std::uint64_t index = 0; index < split.batches(); ++index) {
      const RankBatch batch = split.batch(index);
      EXPECT_EQ(batch.size, options.batch_size);
      EXPECT_LE(batch.valid, batch.size);
      for (std::uint64_t place = 0; place < batch.size; ++place) {
        EXPECT_LT(batch.position(place), positions);
        if (place < batch.valid) ++counts[batch.position(place)];
      }
    }
  }
  return counts;
}

TEST(Split, TakesEveryPositionOnceAndEveryRankTheSameNumberOfBatches) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    SplitOptions options;
    options.reader_group = 1 + static_cast<std::uint32_t>(random() % 3);
    options.world = options.reader_group * (1 + static_cast<std::uint32_t>(random() % 7));
    options.batch_size = 1 + random() % 9;
    options.tail = static_cast<Tail>(random() % 3);
    const std::uint64_t global = options.batch_size * options.world / options.reader_group;
    const std::uint64_t positions = global + random() % 200, consumed = random() % (positions + 1);
    std::set<std::uint64_t> batches;
    for (options.rank = 0; options.rank < options.world; ++options.rank) {
      const Split split = Split::create(options, positions, consumed).value();
      batches.insert(split.batches());
      EXPECT_EQ(split.global_batch_size(), global);
    }
    ASSERT_EQ(batches.size(), 1u);
    const std::uint64_t left = positions - consumed, full = left / global * global;
    const auto counts = taken(options, positions, consumed);
    std::uint64_t repeated = 0;
    for (const auto& [position, count] : counts) {
      if (options.tail == Tail::kWrap) {
        repeated += static_cast<std::uint64_t>(count - (position >= consumed ? 1 : 0));
      } else {
        ASSERT_EQ(count, 1);
        ASSERT_GE(position, consumed);
      }
    }
    const std::uint64_t filled = (global - left % global) % global;
    switch (options.tail) {
      case Tail::kDrop:
        ASSERT_EQ(counts.size(), full);
        ASSERT_TRUE(counts.empty() || counts.rbegin()->first == consumed + full - 1);
        break;
      case Tail::kPad:
        ASSERT_EQ(counts.size(), left);
        break;
      case Tail::kWrap:
        // Repeats begin at the start of the epoch.
        ASSERT_EQ(repeated, filled);
        for (std::uint64_t position = 0; position < std::min(filled, consumed); ++position)
          ASSERT_EQ(counts.count(position), 1u);
    }
  }
}

TEST(Split, PaddingIsSpreadEvenly) {
  // The 5 positions left for 4 ranks with 3 places each are split 1, 1, 1 and 2.
  std::vector<std::uint64_t> valid, last;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const Split split = Split::create({rank, 4, 1, 3, Tail::kPad}, 12 + 5).value();
    ASSERT_EQ(split.batches(), 2u);
    EXPECT_EQ(split.batch(0).valid, 3u);
    valid.push_back(split.batch(1).valid);
    last.push_back(split.batch(1).position(2));
  }
  EXPECT_EQ(valid, (std::vector<std::uint64_t>{1, 1, 1, 2}));
  EXPECT_EQ(last, (std::vector<std::uint64_t>{12, 13, 14, 16}));
  // A rank without positions repeats the epoch's last one.
  const RankBatch none = Split::create({0, 4, 1, 3, Tail::kPad}, 2).value().batch(0);
  EXPECT_EQ(none.valid, 0u);
  EXPECT_EQ(none.position(0), 1u);
}

TEST(Split, WrapsOftenWhereABatchIsLongerThanAnEpoch) {
  const RankBatch batch = Split::create({1, 2, 1, 8, Tail::kWrap}, 3).value().batch(0);
  EXPECT_EQ(batch.valid, 8u);
  std::vector<std::uint64_t> positions;
  for (std::uint64_t place = 0; place < 8; ++place) positions.push_back(batch.position(place));
  EXPECT_EQ(positions, (std::vector<std::uint64_t>{2, 0, 1, 2, 0, 1, 2, 0}));
}

TEST(Split, ReaderGroupsGetTheSameSamplesAndDivideTheirSpace) {
  std::vector<std::uint64_t> bounds;
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    const Split split = Split::create({rank, 6, 3, 4, Tail::kDrop}, 100).value();
    EXPECT_EQ(split.group(), rank / 3);
    EXPECT_EQ(split.member(), rank % 3);
    EXPECT_EQ(split.batches(), 12u);
    EXPECT_EQ(split.batch(1).position(0), 8 + rank / 3 * 4);
    const Split::Share share = split.share(721).value();
    if (rank < 3) bounds.insert(bounds.end(), {share.begin, share.begin + share.count});
    const Split::Share aligned = split.share(721, 100).value();
    EXPECT_EQ(aligned.begin % 100, 0u);
    EXPECT_TRUE(rank % 3 == 2 ? aligned.begin + aligned.count == 721 : aligned.count % 100 == 0);
  }
  EXPECT_EQ(bounds, (std::vector<std::uint64_t>{0, 240, 240, 480, 480, 721}));
  const Split split = Split::create({2, 3, 3}, 1).value();
  EXPECT_EQ(split.share(5, 2).value().begin, 4u);
  EXPECT_EQ(split.share(5, 2).value().count, 1u);
  EXPECT_EQ(split.share(4, 2).status().message(),
            "extent: 4 elements in multiples of 2 cannot be divided among the 3 ranks of a reader group");
  EXPECT_FALSE(split.share(0).ok());
  EXPECT_EQ(split.share(4, 0).status().message(), "align: 0");
  EXPECT_EQ(split.share(~0ull).value().begin + split.share(~0ull).value().count, ~0ull);
}

TEST(Split, AfterTheLastBatchComesTheNextEpoch) {
  for (const Tail tail : {Tail::kDrop, Tail::kPad, Tail::kWrap}) {
    const Split split = Split::create({0, 2, 1, 4, tail}, 20).value();
    EXPECT_EQ(split.after(0, 3), (LoaderPosition{3, 0}));
    EXPECT_EQ(split.after(1, 3), (LoaderPosition{3, 8}));
    EXPECT_EQ(split.after(split.batches(), 3), (LoaderPosition{4, 0}));
  }
  // What is left does not fill a batch, so the epoch is over.
  const Split over = Split::create({0, 2, 1, 4}, 20, 16).value();
  EXPECT_EQ(over.batches(), 0u);
  EXPECT_EQ(over.after(0, 3), (LoaderPosition{4, 0}));
}

TEST(Split, MisuseNamesTheParameter) {
  EXPECT_EQ(refusal(Split::create({0, 0}, 1)), "world: no ranks");
  EXPECT_EQ(refusal(Split::create({2, 2}, 1)), "rank: 2, but world is 2");
  EXPECT_EQ(refusal(Split::create({0, 4, 3}, 1)), "reader_group: 3 ranks, which do not divide world, 4");
  EXPECT_EQ(refusal(Split::create({0, 4, 0}, 1)), "reader_group: 0 ranks, which do not divide world, 4");
  EXPECT_EQ(refusal(Split::create({0, 1, 1, 0}, 1)), "batch_size: no samples");
  EXPECT_EQ(refusal(Split::create({0, 1, 1, 1, static_cast<Tail>(3)}, 1)), "tail: not a value of Tail");
  EXPECT_EQ(refusal(Split::create({}, 0)), "positions: 0, not 1 to 2^63");
  EXPECT_EQ(refusal(Split::create({}, 5, 6)), "consumed: 6 positions, but an epoch has 5");
  EXPECT_EQ(refusal(Split::create({0, 2, 1, ~0ull}, 5)),
            "batch_size: 18446744073709551615 samples in each of 2 reader groups are more than 2^63");
  EXPECT_EQ(
      refusal(Split::create({0, 8, 1, 8}, 40)),
      "batch_size: all ranks together take 64 samples a batch (8 x 8), an epoch has 40, and tail is kDrop: no batch "
      "would ever be full");
  const Split large = Split::create({1, 2, 1, std::uint64_t{1} << 62, Tail::kPad}, std::uint64_t{1} << 63).value();
  EXPECT_EQ(large.batches(), 1u);
  EXPECT_EQ(large.batch(0).position((std::uint64_t{1} << 62) - 1), (std::uint64_t{1} << 63) - 1);
}

// Elements of the dimension "x" in a window.
std::set<std::uint64_t> elements_of(const Windows& windows, std::uint64_t sample) {
  std::vector<DimSlice> out(windows.dim_count());
  EXPECT_TRUE(windows.slices(sample, 0, 0, out).ok());
  std::set<std::uint64_t> elements;
  for (std::uint64_t i = 0; i < out[0].count; ++i) elements.insert(out[0].begin + i);
  for (std::uint64_t i = 0; i < out[0].wrapped_count; ++i) elements.insert(out[0].wrapped_begin + i);
  return elements;
}

// For each part, counts the samples that share an element with another part, by brute force.
std::vector<std::uint64_t> count_leaking(const WindowParts& parts) {
  std::vector<std::uint64_t> counts;
  for (std::size_t part = 0; part < parts.parts.size(); ++part) {
    std::set<std::uint64_t> others;
    for (std::size_t other = 0; other < parts.parts.size(); ++other) {
      for (std::uint64_t i = 0; other != part && i < parts.parts[other].sample_count(); ++i) {
        others.merge(elements_of(parts.parts[other], i));
      }
    }
    std::uint64_t& count = counts.emplace_back(0);
    for (std::uint64_t i = 0; i < parts.parts[part].sample_count(); ++i) {
      const auto elements = elements_of(parts.parts[part], i);
      count += std::any_of(elements.begin(), elements.end(), [&](std::uint64_t at) { return others.count(at) != 0; });
    }
  }
  return counts;
}

TEST(WindowParts, SayHowManyLeakAndDropThem) {
  std::mt19937_64 random(13);
  const auto up_to = [&](std::uint64_t most) { return 1 + random() % most; };
  int divided = 0, leaking = 0, dropped = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::uint64_t extent = up_to(30);
    WindowOptions options;
    options.input_dims = {{"x", up_to(std::min<std::uint64_t>(extent, 8))}};
    options.input_stride = {{"x", up_to(6)}};
    options.batch_dims = {{"y", 1}};
    options.boundary_of = {{"x", static_cast<Boundary>(random() % 4)}};
    Windows all = Windows::create({{"x", extent}, {"y", 3}}, options).value();
    if (const std::uint64_t windows = all.sample_count() / 3; random() % 2 == 0) {
      const std::uint64_t first = random() % std::min<std::uint64_t>(windows, 3);
      all = all.restrict("x", first, random() % 2 == 0 ? windows - first : up_to(windows - first)).value();
    }
    std::vector<double> weights(up_to(4));
    for (double& weight : weights) weight = static_cast<double>(up_to(5));
    const auto parts = divide_windows(all, "x", weights);
    if (!parts.ok()) {
      EXPECT_NE(parts.status().message().find("would have no window"), std::string::npos);
      continue;
    }
    ++divided;
    std::uint64_t samples = 0;
    for (const Windows& part : parts->parts) samples += part.sample_count();
    ASSERT_EQ(samples, all.sample_count());
    ASSERT_EQ(parts->leaking, count_leaking(*parts)) << extent << " " << ::testing::PrintToString(options.input_dims);
    leaking += parts->leaking.front() > 0;
    const auto clean = divide_windows(all, "x", weights, true);
    if (!clean.ok()) {
      EXPECT_NE(clean.status().message().find("drop_leaking: all "), std::string::npos);
      continue;
    }
    ASSERT_EQ(count_leaking(*clean), std::vector<std::uint64_t>(weights.size(), 0));
    ASSERT_EQ(clean->leaking, std::vector<std::uint64_t>(weights.size(), 0));
    for (std::size_t part = 0; part < weights.size(); ++part) {
      ASSERT_EQ(clean->parts[part].sample_count() + clean->dropped[part], parts->parts[part].sample_count());
      dropped += clean->dropped[part] > 0;
    }
  }
  EXPECT_GT(divided, 500);
  EXPECT_GT(leaking, 200);
  EXPECT_GT(dropped, 100);
}

TEST(WindowParts, MisuseNamesTheParameter) {
  WindowOptions options;
  options.input_dims = {{"x", 4}};
  const Windows windows = Windows::create({{"x", 40}, {"y", 3}}, options).value();
  const auto says = [&](std::string_view dim, const std::vector<double>& weights) {
    const auto parts = divide_windows(windows, dim, weights);
    return parts.ok() ? "accepted" : parts.status().message();
  };
  EXPECT_EQ(says("y", {1, 1}), "dim: there are no windows along a dimension 'y'");
  EXPECT_EQ(says("x", {}), "weights: no parts");
  EXPECT_EQ(says("x", {1, 0}), "weights: number 1 is not above 0 and finite");
  EXPECT_EQ(says("x", {1, std::numeric_limits<double>::quiet_NaN()}), "weights: number 1 is not above 0 and finite");
  EXPECT_EQ(says("x", {1e308, 1e308}), "weights: their sum is infinite");
  EXPECT_EQ(says("x", {1000, 1}), "weights: part 1 of 2 would have no window of the 10 along 'x'");
  options.concat_input_dims = true;
  EXPECT_EQ(divide_windows(Windows::create({{"x", 40}}, options).value(), "x", {1, 1}).status().message(),
            "dim: dimension 'x': samples have several windows along it");
}

}  // namespace
}  // namespace headrace
