// Crops are a pure function of (seed, epoch, frame, crop), lie inside the array, and have equally likely places.
#include <gtest/gtest.h>
#include <headrace/crops.h>

#include <map>
#include <set>
#include <string>

namespace headrace {
namespace {

Windows frames(std::uint64_t times = 10) {
  WindowOptions options;
  options.input_dims = {{"time", 2}};
  options.input_stride = {{"time", 1}};
  options.outputs = {{"x", "time", 0}, {"y", "time", 1}};
  return Windows::create({{"time", times}, {"lat", 9}, {"lon", 12}}, options).value();
}

std::vector<DimSlice> slices(const Crops& crops, std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample,
                             std::size_t output = 0) {
  std::vector<DimSlice> out(3);
  const Status status = crops.slices(seed, epoch, sample, 0, output, out);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

TEST(Crops, LieInsideAndEveryPlaceIsEquallyLikely) {
  const Crops crops = Crops::create(frames(1001), {{{"lat", 5}, {"lon", 4}}, 30, {"lon"}, {"lat"}}).value();
  ASSERT_EQ(crops.sample_count(), 30'000u);
  EXPECT_EQ(crops.sample_grid(), (std::vector<std::uint64_t>{1000, 30}));
  std::map<std::uint64_t, int> lat, lon, both;
  int flipped = 0;
  for (std::uint64_t sample = 0; sample < crops.sample_count(); ++sample) {
    const auto out = slices(crops, 7, 0, sample);
    EXPECT_EQ(out[0], (DimSlice{sample / 30, 1}));
    ASSERT_EQ(out[1].count, 5u);
    ASSERT_LE(out[1].begin + 5, 9u);
    ASSERT_EQ(out[2].size(), 4u);
    ASSERT_LE(out[2].begin + out[2].count, 12u);
    ASSERT_EQ(out[2].wrapped_count, out[2].begin > 8 ? out[2].begin - 8 : 0);
    ASSERT_EQ(out[2].wrapped_begin, 0u);
    ASSERT_FALSE(out[2].flipped);
    ++lat[out[1].begin];
    ++lon[out[2].begin];
    ++both[out[1].begin * 12 + out[2].begin];
    flipped += out[1].flipped;
  }
  // Chi-square test; a fair draw exceeds the limits once in 10^6.
  const auto chi_square = [](const std::map<std::uint64_t, int>& counts, double places) {
    double sum = 0;
    for (const auto& [place, count] : counts)
      sum += (count - 30'000 / places) * (count - 30'000 / places) / (30'000 / places);
    return sum + (places - static_cast<double>(counts.size())) * 30'000 / places;
  };
  EXPECT_LT(chi_square(lat, 5), 33);
  EXPECT_LT(chi_square(lon, 12), 50);
  EXPECT_LT(chi_square(both, 60), 124);
  EXPECT_NEAR(flipped, 15'000, 450);
}

TEST(Crops, ArePureAndTheSameForAllOutputs) {
  const Crops crops = Crops::create(frames(), {{{"lat", 3}, {"lon", 3}}, 4, {}, {}}).value();
  const Crops again = Crops::create(frames(), {{{"lat", 3}, {"lon", 3}}, 4, {}, {}}).value();
  int other_seed = 0, other_epoch = 0, other_crop = 0, other_frame = 0;
  for (std::uint64_t sample = crops.sample_count(); sample-- > 0;) {
    const auto out = slices(crops, 1, 2, sample);
    EXPECT_EQ(out, slices(again, 1, 2, sample));
    const auto y = slices(crops, 1, 2, sample, 1);
    EXPECT_EQ(y[0].begin, out[0].begin + 1);
    EXPECT_EQ(y[1], out[1]);
    EXPECT_EQ(y[2], out[2]);
    other_seed += slices(crops, 2, 2, sample) != out;
    other_epoch += slices(crops, 1, 3, sample) != out;
    other_crop += slices(crops, 1, 2, sample ^ 1) != out;
    const auto next = slices(crops, 1, 2, (sample + 4) % crops.sample_count());
    other_frame += next[1] != out[1] || next[2] != out[2];
  }
  // There are 36 samples with 70 places each.
  for (const int differing : {other_seed, other_epoch, other_crop, other_frame}) EXPECT_GT(differing, 30);
}

TEST(Crops, AreTheSameOnEveryMachine) {
  const Crops crops = Crops::create(frames(), {{{"lat", 3}, {"lon", 3}}, 4, {"lon"}, {"lat", "lon"}}).value();
  std::string places;
  for (std::uint64_t sample = 0; sample < 6; ++sample) {
    const auto out = slices(crops, 42, 3, sample);
    for (const std::size_t at : {1, 2}) places += std::to_string(out[at].begin) + (out[at].flipped ? "! " : " ");
  }
  EXPECT_EQ(places, "5! 10! 2! 10 2! 6 5! 4 2! 9 1 9 ");
}

TEST(Crops, MisuseNamesTheParameter) {
  const auto refusal = [](const CropOptions& options) {
    const auto crops = Crops::create(frames(), options);
    return crops.ok() ? "accepted" : crops.status().message();
  };
  EXPECT_EQ(refusal({{{"lat", 10}}, 1, {}, {}}), "crops: size: dimension 'lat': a crop of 10 elements, but it has 9");
  EXPECT_EQ(refusal({{{"lat", 0}}, 1, {}, {}}), "crops: size: dimension 'lat': a crop of 0 elements, but it has 9");
  EXPECT_EQ(refusal({{{"depth", 1}}, 1, {}, {}}), "crops: size: dimension 'depth': the array does not have it");
  EXPECT_EQ(refusal({{{"lat", 1}, {"lat", 1}}, 1, {}, {}}), "crops: size: dimension 'lat': given twice");
  EXPECT_EQ(refusal({{{"time", 1}}, 1, {}, {}}),
            "crops: size: dimension 'time': the frames have windows along it; only dimensions taken whole can be "
            "cropped");
  EXPECT_EQ(refusal({{{"lat", 1}}, 0, {}, {}}), "crops: per_frame: 0 crops of a frame");
  EXPECT_EQ(refusal({{}, 1, {}, {}}), "crops: size: no dimension is cropped");
  EXPECT_EQ(refusal({{{"lat", 1}}, 1, {"lon"}, {}}), "crops: wrap: dimension 'lon': size does not have it");
  EXPECT_EQ(refusal({{{"lat", 1}}, 1, {}, {"lon"}}), "crops: flip: dimension 'lon': size does not have it");
  EXPECT_EQ(refusal({{{"lat", 1}}, std::uint64_t{1} << 62, {}, {}}), "crops: per_frame: more than 2^63 samples");
  const Crops crops = Crops::create(frames(), {{{"lat", 1}}, 2, {}, {}}).value();
  std::vector<DimSlice> out(3);
  EXPECT_EQ(crops.slices(0, 0, 18, 0, 0, out).message(), "sample 18 of 18");
  EXPECT_EQ(crops.slices(0, 0, 0, 0, 2, out).message(), "output 2 of 2");
  EXPECT_EQ(crops.schema().differences(crops.frames().schema()), (std::vector<std::string>{"crops"}));
}

}  // namespace
}  // namespace headrace
