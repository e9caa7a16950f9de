// Windows, crops and orders of the C API equal those of C++, and refuse the same things.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "unit/c_loader_testing.h"

namespace headrace {
namespace {

using namespace testing;

std::vector<hr_dim_value> c_list(const ByDim<std::uint64_t>& list) {
  std::vector<hr_dim_value> out;
  for (const auto& [dim, value] : list) out.push_back({dim.c_str(), value});
  return out;
}

// Makes the same windows through C.
Made<hr_windows> c_of(const ByDim<std::uint64_t>& dims, const WindowOptions& from) {
  const std::vector<hr_dim_value> sizes = c_list(dims), input = c_list(from.input_dims),
                                  overlap = c_list(from.input_overlap), stride = c_list(from.input_stride),
                                  batch = c_list(from.batch_dims);
  std::vector<hr_dim_starts> starts;
  for (const auto& [dim, list] : from.input_starts) starts.push_back({dim.c_str(), list.data(), list.size()});
  std::vector<hr_dim_value> boundaries;
  for (const auto& [dim, boundary] : from.boundary_of)
    boundaries.push_back({dim.c_str(), static_cast<std::uint64_t>(boundary)});
  std::vector<hr_window_output> outputs;
  for (const WindowOutput& output : from.outputs)
    outputs.push_back({output.name.c_str(), output.dim.c_str(), output.offset, output.count, output.step});
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims = input.data();
  options.input_dims_count = input.size();
  options.input_overlap = overlap.data();
  options.input_overlap_count = overlap.size();
  options.input_stride = stride.data();
  options.input_stride_count = stride.size();
  options.input_starts = starts.data();
  options.input_starts_count = starts.size();
  options.batch_dims = batch.data();
  options.batch_dims_count = batch.size();
  options.concat_input_dims = from.concat_input_dims ? 1 : 0;
  options.boundary = static_cast<std::uint32_t>(from.boundary);
  options.boundary_of = boundaries.data();
  options.boundary_of_count = boundaries.size();
  options.outputs = outputs.data();
  options.outputs_count = outputs.size();
  return make<hr_windows>([&](hr_windows** out, hr_error** error) {
    return hr_windows_create(sizes.data(), sizes.size(), &options, out, error);
  });
}

std::vector<DimSlice> slices_of(const hr_windows* windows, std::uint64_t seed, std::uint64_t epoch,
                                std::uint64_t sample, std::uint64_t window, std::size_t output) {
  std::vector<hr_dim_slice> slices(hr_windows_dim_count(windows));
  const Said said = said_by([&](hr_error** error) {
    return hr_windows_slices(windows, seed, epoch, sample, window, output, slices.data(), slices.size(), error);
  });
  EXPECT_EQ(said.code, HR_OK) << said.message;
  std::vector<DimSlice> out;
  for (const hr_dim_slice& slice : slices) {
    EXPECT_EQ(slice.reserved, 0);
    EXPECT_EQ(slice.flipped & ~1, 0);
    out.push_back({slice.begin, slice.count, slice.step, slice.wrapped_begin, slice.wrapped_count, slice.padding,
                   slice.flipped != 0});
  }
  return out;
}

void expect_same_windows(const hr_windows* c, const Windows& cpp) {
  ASSERT_NE(c, nullptr);
  ASSERT_EQ(hr_windows_sample_count(c), cpp.sample_count());
  EXPECT_EQ(hr_windows_dim_count(c), cpp.dim_count());
  ASSERT_EQ(hr_windows_output_count(c), cpp.output_count());
  std::vector<DimSlice> slices(cpp.dim_count());
  for (std::uint64_t sample = 0; sample < cpp.sample_count(); ++sample) {
    ASSERT_EQ(hr_windows_window_count(c, sample), cpp.window_count(sample));
    for (std::uint64_t window = 0; window < cpp.window_count(sample); ++window) {
      for (std::size_t output = 0; output < cpp.output_count(); ++output) {
        ASSERT_TRUE(cpp.slices(sample, window, output, slices).ok());
        ASSERT_EQ(slices_of(c, 0, 0, sample, window, output), slices) << sample << ' ' << window << ' ' << output;
      }
    }
  }
  EXPECT_EQ(hr_windows_window_count(c, cpp.sample_count()), 0u);
}

std::vector<WindowOptions> window_options() {
  std::vector<WindowOptions> out;
  out.push_back({.input_dims = {{"time", 2}}});
  out.push_back({.input_dims = {{"lat", 5}, {"time", 4}}, .input_overlap = {{"time", 3}, {"lat", 2}}});
  out.push_back({.input_dims = {{"time", 3}, {"lat", 5}, {"lon", 6}}, .boundary = Boundary::kPad});
  out.push_back({.input_dims = {{"time", 3}}, .boundary = Boundary::kPartial});
  out.push_back({.input_dims = {{"time", 2}, {"lon", 7}}, .boundary_of = {{"lon", Boundary::kWrap}}});
  out.push_back({.input_dims = {{"time", 6}, {"lat", 4}},
                 .input_stride = {{"time", 2}, {"lat", 3}},
                 .boundary = Boundary::kPad,
                 .outputs = {{"x", "time", 0, 2}, {"y", "time", 1, 3, 2}, {"all"}}});
  out.push_back({.input_dims = {{"lat", 5}}, .batch_dims = {{"time", 3}}});
  out.push_back({.input_dims = {{"lat", 6}}, .batch_dims = {{"time", 3}}, .concat_input_dims = true});
  out.push_back({.input_dims = {{"time", 5}, {"lat", 4}}, .input_starts = {{"time", {0, 3, 4, 17}}}});
  return out;
}

TEST(CSamples, WindowsAreThoseOfCpp) {
  for (const WindowOptions& options : window_options()) {
    const Made<hr_windows> c = c_of(dims(kShape), options);
    ASSERT_EQ(c.code, HR_OK) << c.message;
    expect_same_windows(c.get(), Windows::create(dims(kShape), options).value());
  }
}

TEST(CSamples, CropsAreThoseOfCpp) {
  const auto frames = c_windows(2);
  const hr_dim_value size[] = {{"lat", 5}, {"lon", 9}};
  const char* const wrap[] = {"lon"};
  const char* const flip[] = {"lat", "lon"};
  hr_crop_options options = HR_CROP_OPTIONS_INIT;
  options.dims = size;
  options.dims_count = 2;
  options.per_frame = 3;
  options.wrap = wrap;
  options.wrap_count = 1;
  options.flip = flip;
  options.flip_count = 2;
  const auto crop = [&] {
    return make<hr_windows>(
        [&](hr_windows** out, hr_error** error) { return hr_windows_crop(frames.get(), &options, out, error); });
  };
  const auto c = crop();
  ASSERT_EQ(c.code, HR_OK) << c.message;
  const Crops cpp =
      Crops::create(cpp_windows(2),
                    {.size = {{"lat", 5}, {"lon", 9}}, .per_frame = 3, .wrap = {"lon"}, .flip = {"lat", "lon"}})
          .value();
  ASSERT_EQ(hr_windows_sample_count(c.get()), cpp.sample_count());
  EXPECT_EQ(hr_windows_window_count(c.get(), cpp.sample_count() - 1), 1u);
  EXPECT_EQ(hr_windows_window_count(c.get(), cpp.sample_count()), 0u);
  std::vector<DimSlice> slices(3);
  for (std::uint64_t sample = 0; sample < cpp.sample_count(); ++sample) {
    ASSERT_TRUE(cpp.slices(11, sample % 4, sample, 0, 0, slices).ok());
    ASSERT_EQ(slices_of(c.get(), 11, sample % 4, sample, 0, 0), slices);
  }
  const auto again = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_crop(c.get(), &options, out, error); });
  EXPECT_EQ(again.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(again.message.find("cropped again"), std::string::npos) << again.message;
  const auto fewer = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_restrict(c.get(), "time", 0, 1, out, error); });
  EXPECT_EQ(fewer.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(fewer.message.find("restrict their frames"), std::string::npos) << fewer.message;
  const double weights[] = {1, 1};
  hr_windows* parts[2];
  EXPECT_EQ(hr_windows_divide(c.get(), "time", weights, 2, 0, parts, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(parts[0], nullptr);
  EXPECT_EQ(parts[1], nullptr);

  options.per_frame = 0;
  EXPECT_EQ(hr_windows_sample_count(crop().get()), 11u);  // one each
  const hr_dim_value sliced[] = {{"time", 1}}, large[] = {{"lat", 13}}, nameless[] = {{nullptr, 5}};
  options.wrap_count = options.flip_count = 0;
  options.dims_count = 1;
  for (const auto& [given, names] : {std::pair{sliced, "'time'"}, {large, "a crop of 13"}, {nameless, "dims[0].dim"}}) {
    options.dims = given;
    const auto refused = crop();
    EXPECT_EQ(refused.code, HR_INVALID_ARGUMENT);
    EXPECT_NE(refused.message.find(names), std::string::npos) << refused.message;
  }
  options.dims = size;
  options.dims_count = 2;
  const char* const nothing[] = {nullptr};
  options.flip = nothing;
  options.flip_count = 1;
  EXPECT_NE(crop().message.find("options->flip[0] is null"), std::string::npos) << crop().message;
  options.flip = nullptr;
  EXPECT_NE(crop().message.find("'options->flip' is null"), std::string::npos) << crop().message;
  options.size = 8;
  EXPECT_NE(crop().message.find("size field"), std::string::npos) << crop().message;
}

TEST(CSamples, PartsAreThoseOfCpp) {
  const auto c = c_windows(4, 1);
  const Windows cpp = cpp_windows(4, 1);
  const auto fewer = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_restrict(c.get(), "time", 3, 9, out, error); });
  ASSERT_EQ(fewer.code, HR_OK) << fewer.message;
  expect_same_windows(fewer.get(), cpp.restrict("time", 3, 9).value());
  const auto outside = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_restrict(c.get(), "time", 15, 9, out, error); });
  EXPECT_EQ(outside.code, HR_INVALID_ARGUMENT);

  const double weights[] = {3, 1};
  for (const bool drop : {false, true}) {
    hr_windows* parts[2] = {nullptr, nullptr};
    std::uint64_t leaking[2] = {99, 99}, dropped[2] = {99, 99};
    const Said said = said_by([&](hr_error** error) {
      return hr_windows_divide(c.get(), "time", weights, 2, drop ? 1 : 0, parts, leaking, dropped, error);
    });
    ASSERT_EQ(said.code, HR_OK) << said.message;
    const WindowParts wanted = divide_windows(cpp, "time", {3, 1}, drop).value();
    for (std::size_t i = 0; i < 2; ++i) {
      const Owned<hr_windows> part(parts[i]);
      expect_same_windows(part.get(), wanted.parts[i]);
      EXPECT_EQ(leaking[i], wanted.leaking[i]);
      EXPECT_EQ(dropped[i], wanted.dropped[i]);
    }
    EXPECT_GT(drop ? dropped[0] : leaking[0], 0u);
  }
  // Null for unwanted counts; and parts that are impossible.
  hr_windows* parts[2] = {nullptr, nullptr};
  EXPECT_EQ(hr_windows_divide(c.get(), "time", weights, 2, 0, parts, nullptr, nullptr, nullptr), HR_OK);
  hr_windows_free(parts[0]);
  hr_windows_free(parts[1]);
  EXPECT_EQ(hr_windows_divide(c.get(), "lat", weights, 2, 0, parts, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(parts[0], nullptr);
  EXPECT_EQ(parts[1], nullptr);
  EXPECT_EQ(hr_windows_divide(c.get(), "time", weights, 0, 0, parts, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_divide(nullptr, "time", weights, 2, 0, parts, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_divide(c.get(), nullptr, weights, 2, 0, parts, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_divide(c.get(), "time", nullptr, 2, 0, parts, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_divide(c.get(), "time", weights, 2, 0, nullptr, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
}

TEST(CSamples, WindowsThatAreRefused) {
  const auto refused = [](const ByDim<std::uint64_t>& sizes, const WindowOptions& options, const std::string& names) {
    const Made<hr_windows> made = c_of(sizes, options);
    EXPECT_EQ(made.code, HR_INVALID_ARGUMENT) << names;
    EXPECT_NE(made.message.find(names), std::string::npos) << made.message;
  };
  refused(dims(kShape), {.input_dims = {{"time", 24}}}, "'time': a window of 24 elements, but it has 23");
  refused(dims(kShape), {.input_dims = {{"tiem", 2}}},
          "there is no dimension 'tiem'; the array has 'time', 'lat', 'lon'");
  refused(dims(kShape), {.input_dims = {{"time", 2}}, .input_overlap = {{"time", 2}}}, "input_overlap");
  refused(dims(kShape), {.input_dims = {{"time", 2}}, .input_stride = {{"time", 0}}}, "a stride of 0");
  refused(dims(kShape), {.input_dims = {{"time", 2}}, .input_starts = {{"time", {3, 3}}}}, "starts must ascend");
  refused(dims(kShape), {.input_dims = {{"time", 2}}, .batch_dims = {{"depth", 2}}}, "'depth'");
  refused(dims(kShape), {.input_dims = {{"time", 2}}, .boundary = static_cast<Boundary>(4)},
          "options->boundary is 4, which is not one of HR_BOUNDARY_");
  refused(dims(kShape), {.input_dims = {{"time", 2}}, .boundary_of = {{"time", static_cast<Boundary>(9)}}},
          "options->boundary_of: dimension 'time' is 9");
  refused(dims(kShape), {.input_dims = {{"time", 2}}, .outputs = {{"y", "time", 2}}}, "'y'");
  refused({{"time", 0}}, {}, "has no elements");

  // Errors that are only possible with pointers.
  hr_windows* out = nullptr;
  const hr_dim_value nameless[] = {{nullptr, 3}}, time[] = {{"time", 3}};
  const hr_dim_starts no_name[] = {{nullptr, nullptr, 0}}, no_starts[] = {{"time", nullptr, 2}};
  const auto said = [&](const hr_window_options& options) {
    return said_by([&](hr_error** error) { return hr_windows_create(time, 1, &options, &out, error); }).message;
  };
  EXPECT_EQ(hr_windows_create(nullptr, 1, nullptr, &out, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_create(time, 1, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_create(nameless, 1, nullptr, &out, nullptr), HR_INVALID_ARGUMENT);
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims_count = 1;
  EXPECT_NE(said(options).find("'options->input_dims' is null"), std::string::npos) << said(options);
  options.input_dims = nameless;
  EXPECT_NE(said(options).find("options->input_dims[0].dim is null"), std::string::npos) << said(options);
  options.input_dims = time;
  options.input_starts = no_name;
  options.input_starts_count = 1;
  EXPECT_NE(said(options).find("options->input_starts[0].dim is null"), std::string::npos) << said(options);
  options.input_starts = no_starts;
  EXPECT_NE(said(options).find("options->input_starts->starts"), std::string::npos) << said(options);
  options.input_starts_count = 0;
  options.outputs_count = 1;
  EXPECT_NE(said(options).find("options->outputs"), std::string::npos) << said(options);
  options.size = 0;
  EXPECT_NE(said(options).find("size field is 0"), std::string::npos) << said(options);
  EXPECT_EQ(out, nullptr);
}

TEST(CSamples, SlicesOutOfRangeAreRefused) {
  const auto c = c_windows(2);
  hr_dim_slice slices[4] = {};
  const auto code = [&](std::uint64_t sample, std::uint64_t window, std::size_t output, std::size_t count) {
    return hr_windows_slices(c.get(), 0, 0, sample, window, output, slices, count, nullptr);
  };
  EXPECT_EQ(code(10, 0, 0, 3), HR_OK);
  EXPECT_EQ(code(11, 0, 0, 3), HR_INVALID_ARGUMENT);
  EXPECT_EQ(code(0, 1, 0, 3), HR_INVALID_ARGUMENT);
  EXPECT_EQ(code(0, 0, 1, 3), HR_INVALID_ARGUMENT);
  EXPECT_EQ(code(0, 0, 0, 2), HR_INVALID_ARGUMENT);
  EXPECT_EQ(code(0, 0, 0, 4), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_slices(c.get(), 0, 0, 0, 0, 0, nullptr, 3, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_slices(nullptr, 0, 0, 0, 0, 0, slices, 3, nullptr), HR_INVALID_ARGUMENT);
}

std::vector<std::uint64_t> epoch_of(const hr_order* order, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> out(hr_order_positions(order));
  EXPECT_EQ(hr_order_epoch(order, seed, epoch, 0, out.size(), out.data(), nullptr), HR_OK);
  return out;
}

void expect_same_order(const Made<hr_order>& c, const Order& cpp) {
  ASSERT_EQ(c.code, HR_OK) << c.message;
  ASSERT_EQ(hr_order_positions(c.get()), cpp.positions());
  EXPECT_EQ(hr_order_samples(c.get()), cpp.samples());
  EXPECT_EQ(hr_order_buffer_positions(c.get()), cpp.buffer_positions());
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const EpochOrder wanted = cpp.epoch(5, epoch);
    const std::vector<std::uint64_t> got = epoch_of(c.get(), 5, epoch);
    for (std::uint64_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], wanted.sample(i)) << epoch << ' ' << i;
  }
}

class COrders : public CLoaderTest {};
INSTANTIATE_TEST_SUITE_P(All, COrders, ::testing::Values("host"), loader_device_name);

TEST_P(COrders, AreThoseOfCpp) {
  const auto order = [](const auto& call) { return make<hr_order>(call); };
  expect_same_order(order([](hr_order** out, hr_error** error) { return hr_order_sequential(90, out, error); }),
                    Order::sequential(90).value());
  expect_same_order(order([](hr_order** out, hr_error** error) { return hr_order_full_shuffle(90, out, error); }),
                    Order::full_shuffle(90).value());
  const std::vector<std::uint64_t> ids = {5, 4, 4, 89, 0};
  for (const bool shuffle : {false, true}) {
    expect_same_order(order([&](hr_order** out, hr_error** error) {
                        return hr_order_list(ids.data(), ids.size(), 90, shuffle ? 1 : 0, out, error);
                      }),
                      Order::list(ids, 90, shuffle).value());
  }
  const std::vector<double> weights = {1, 0, 5.5, 2};
  for (const std::uint64_t draws : {std::uint64_t{0}, std::uint64_t{50}}) {
    expect_same_order(order([&](hr_order** out, hr_error** error) {
                        return hr_order_weighted(weights.data(), weights.size(), draws, 0, out, error);
                      }),
                      Order::weighted(weights, {.draws = draws}).value());
  }

  // Samples of one chunk of kChunk, of windows and of crops.
  const auto windows = c_windows(1);
  const Windows cpp = cpp_windows(1);
  for (const std::uint64_t groups : {std::uint64_t{0}, std::uint64_t{2}}) {
    expect_same_order(order([&](hr_order** out, hr_error** error) {
                        return hr_order_block_shuffle(windows.get(), c_array_.get(), groups, out, error);
                      }),
                      Order::block_shuffle({cpp.sample_grid(), {4}, groups == 0 ? 16 : groups}).value());
  }
  const hr_dim_value size[] = {{"lat", 5}};
  hr_crop_options options = HR_CROP_OPTIONS_INIT;
  options.dims = size;
  options.dims_count = 1;
  options.per_frame = 3;
  const auto crops = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_crop(windows.get(), &options, out, error); });
  expect_same_order(order([&](hr_order** out, hr_error** error) {
                      return hr_order_block_shuffle(crops.get(), c_array_.get(), 2, out, error);
                    }),
                    Order::block_shuffle({{23, 3}, {4, 3}, 2}).value());
  expect_same_order(order([&](hr_order** out, hr_error** error) {
                      return hr_order_partitioned_block_shuffle(crops.get(), c_array_.get(), 2, 3, 5, out, error);
                    }),
                    Order::block_shuffle({{23, 3}, {4, 3}, 2, 3, 5}).value());
}

TEST_P(COrders, InvalidOrdersAreRefused) {
  hr_order* out = nullptr;
  const std::uint64_t ids[] = {3, 90};
  const double weights[] = {1, NAN}, fine[] = {1, 2};
  const auto flat = c_of({{"time", 23}}, {.input_dims = {{"time", 2}}});
  struct Row {
    hr_code code;
    const char* names;
    Said said;
  };
  const auto of = [&](const auto& call) { return said_by([&](hr_error** error) { return call(&out, error); }); };
  const Row rows[] = {
      {HR_INVALID_ARGUMENT, "samples", of([](auto o, auto e) { return hr_order_sequential(0, o, e); })},
      {HR_INVALID_ARGUMENT, "samples", of([](auto o, auto e) { return hr_order_full_shuffle(0, o, e); })},
      {HR_INVALID_ARGUMENT, "sample 90", of([&](auto o, auto e) { return hr_order_list(ids, 2, 90, 0, o, e); })},
      {HR_INVALID_ARGUMENT, "'ids' is null",
       of([&](auto o, auto e) { return hr_order_list(nullptr, 2, 90, 0, o, e); })},
      {HR_INVALID_ARGUMENT, "ids", of([&](auto o, auto e) { return hr_order_list(nullptr, 0, 90, 0, o, e); })},
      {HR_INVALID_ARGUMENT, "weight", of([&](auto o, auto e) { return hr_order_weighted(weights, 2, 0, 0, o, e); })},
      {HR_INVALID_ARGUMENT, "'weights' is null",
       of([&](auto o, auto e) { return hr_order_weighted(nullptr, 2, 0, 0, o, e); })},
      {HR_RESOURCE_EXHAUSTED, "table_bytes",
       of([&](auto o, auto e) { return hr_order_weighted(fine, 2, 0, 1, o, e); })},
      {HR_INVALID_ARGUMENT, "'windows' is null",
       of([&](auto o, auto e) { return hr_order_block_shuffle(nullptr, c_array_.get(), 0, o, e); })},
      {HR_INVALID_ARGUMENT, "partitions: 0", of([&](auto o, auto e) {
         return hr_order_partitioned_block_shuffle(windows_.get(), c_array_.get(), 0, 0, 1, o, e);
       })},
      {HR_INVALID_ARGUMENT, "'array' is null",
       of([&](auto o, auto e) { return hr_order_block_shuffle(windows_.get(), nullptr, 0, o, e); })},
      {HR_INVALID_ARGUMENT, "dimensions",
       of([&](auto o, auto e) { return hr_order_block_shuffle(flat.get(), c_array_.get(), 0, o, e); })},
      {HR_INVALID_ARGUMENT, "'out' is null", of([&](auto, auto e) { return hr_order_sequential(5, nullptr, e); })},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.said.code, row.code) << row.names << ": " << row.said.message;
    EXPECT_NE(row.said.message.find(row.names), std::string::npos) << row.names << ": " << row.said.message;
  }
  EXPECT_EQ(out, nullptr);

  const auto order = make<hr_order>([](auto o, auto e) { return hr_order_full_shuffle(10, o, e); });
  std::uint64_t samples[10];
  EXPECT_EQ(hr_order_epoch(order.get(), 0, 0, 7, 3, samples, nullptr), HR_OK);
  EXPECT_EQ(std::vector<std::uint64_t>(samples, samples + 3),
            (std::vector<std::uint64_t>{epoch_of(order.get(), 0, 0)[7], epoch_of(order.get(), 0, 0)[8],
                                        epoch_of(order.get(), 0, 0)[9]}));
  EXPECT_EQ(hr_order_epoch(order.get(), 0, 0, 8, 3, samples, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_order_epoch(order.get(), 0, 0, 11, 0, samples, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_order_epoch(order.get(), 0, 0, 2, ~std::size_t{0}, samples, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_order_epoch(order.get(), 0, 0, 0, 3, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_order_epoch(nullptr, 0, 0, 0, 3, samples, nullptr), HR_INVALID_ARGUMENT);
}

Made<hr_split> split_of(const hr_split_options* options, std::uint64_t positions, std::uint64_t consumed) {
  return make<hr_split>(
      [&](hr_split** out, hr_error** error) { return hr_split_create(options, positions, consumed, out, error); });
}

TEST(CSplits, RanksMatchCpp) {
  for (const std::uint32_t tail : {HR_TAIL_DROP, HR_TAIL_PAD, HR_TAIL_WRAP}) {
    for (const std::uint64_t consumed : {0u, 24u, 90u}) {
      for (std::uint32_t rank = 0; rank < 6; ++rank) {
        hr_split_options options = HR_SPLIT_OPTIONS_INIT;
        options.rank = rank;
        options.world = 6;
        options.reader_group = 2;
        options.tail = tail;
        options.batch_size = 4;
        const Split cpp = Split::create({rank, 6, 2, 4, static_cast<Tail>(tail)}, 95, consumed).value();
        const Made<hr_split> c = split_of(&options, 95, consumed);
        ASSERT_EQ(c.code, HR_OK) << c.message;
        ASSERT_EQ(hr_split_batches(c.get()), cpp.batches());
        EXPECT_EQ(hr_split_global_batch_size(c.get()), cpp.global_batch_size());
        for (std::uint64_t index = 0; index < cpp.batches(); ++index) {
          std::uint64_t positions[4], valid = 99;
          ASSERT_EQ(hr_split_batch(c.get(), index, positions, 4, &valid, nullptr), HR_OK);
          EXPECT_EQ(valid, cpp.batch(index).valid);
          for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(positions[i], cpp.batch(index).position(i));
          EXPECT_EQ(hr_split_batch(c.get(), index, positions, 4, nullptr, nullptr), HR_OK);
        }
        for (std::uint64_t done = 0; done <= cpp.batches(); ++done) {
          std::uint64_t epoch = 99, at = 99;
          ASSERT_EQ(hr_split_after(c.get(), done, 7, &epoch, &at, nullptr), HR_OK);
          EXPECT_EQ((LoaderPosition{epoch, at}), cpp.after(done, 7));
        }
        std::uint64_t begin = 99, count = 99;
        ASSERT_EQ(hr_split_share(c.get(), 50, 8, &begin, &count, nullptr), HR_OK);
        EXPECT_EQ(begin, cpp.share(50, 8)->begin);
        EXPECT_EQ(count, cpp.share(50, 8)->count);
        ASSERT_EQ(hr_split_share(c.get(), 50, 0, &begin, &count, nullptr), HR_OK);
        EXPECT_EQ(count, cpp.share(50)->count);
      }
    }
  }
  // Defaults: one rank, batches of one.
  for (const Made<hr_split>& one : {split_of(nullptr, 5, 0), [] {
                                      hr_split_options zeros{};
                                      zeros.size = sizeof zeros;
                                      return split_of(&zeros, 5, 0);
                                    }()}) {
    EXPECT_EQ(hr_split_batches(one.get()), 5u);
    EXPECT_EQ(hr_split_global_batch_size(one.get()), 1u);
  }
}

TEST(CSplits, RefusalsNameWhatIsWrong) {
  const auto refused = [](const auto& change, std::uint64_t positions, std::uint64_t consumed, const char* names) {
    hr_split_options options = HR_SPLIT_OPTIONS_INIT;
    change(options);
    const Made<hr_split> made = split_of(&options, positions, consumed);
    EXPECT_EQ(made.code, HR_INVALID_ARGUMENT) << names;
    EXPECT_NE(made.message.find(names), std::string::npos) << names << ": " << made.message;
  };
  refused([](hr_split_options& o) { o.rank = 1; }, 10, 0, "rank");
  refused([](hr_split_options& o) { o.world = 3, o.reader_group = 2; }, 10, 0, "reader_group");
  refused([](hr_split_options& o) { o.tail = 3; }, 10, 0, "options->tail");
  refused([](hr_split_options& o) { o.batch_size = 11; }, 10, 0, "batch_size");
  refused([](hr_split_options& o) { o.size = 3; }, 10, 0, "size");
  refused([](hr_split_options&) {}, 0, 0, "positions");
  refused([](hr_split_options&) {}, 10, 11, "consumed");
  EXPECT_EQ(hr_split_create(nullptr, 10, 0, nullptr, nullptr), HR_INVALID_ARGUMENT);

  const Made<hr_split> split = split_of(nullptr, 10, 0);
  std::uint64_t one = 0, other = 0;
  EXPECT_EQ(hr_split_batch(split.get(), 10, &one, 1, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_batch(split.get(), 0, &one, 0, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_batch(split.get(), 0, &one, 2, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_batch(split.get(), 0, nullptr, 1, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_batch(nullptr, 0, &one, 1, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_after(split.get(), 11, 0, &one, &other, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_after(split.get(), 10, 0, nullptr, nullptr, nullptr), HR_OK);
  EXPECT_EQ(hr_split_after(nullptr, 0, 0, &one, &other, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_share(split.get(), 0, 1, &one, &other, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_share(split.get(), 5, 1, nullptr, &other, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_share(split.get(), 5, 1, &one, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_split_share(nullptr, 5, 1, &one, &other, nullptr), HR_INVALID_ARGUMENT);
}

TEST(CSamples, NullHandlesAreHarmless) {
  hr_windows_free(nullptr);
  hr_order_free(nullptr);
  hr_split_free(nullptr);
  EXPECT_EQ(hr_split_batches(nullptr), 0u);
  EXPECT_EQ(hr_split_global_batch_size(nullptr), 0u);
  EXPECT_EQ(hr_order_buffer_positions(nullptr), 0u);
  EXPECT_EQ(hr_windows_sample_count(nullptr), 0u);
  EXPECT_EQ(hr_windows_window_count(nullptr, 0), 0u);
  EXPECT_EQ(hr_windows_dim_count(nullptr), 0u);
  EXPECT_EQ(hr_windows_output_count(nullptr), 0u);
  EXPECT_EQ(hr_order_positions(nullptr), 0u);
  EXPECT_EQ(hr_order_samples(nullptr), 0u);
  hr_windows* out = nullptr;
  EXPECT_EQ(hr_windows_crop(nullptr, nullptr, &out, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_crop(c_windows(2).get(), nullptr, &out, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_crop(nullptr, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_restrict(nullptr, "time", 0, 1, &out, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_restrict(c_windows(2).get(), nullptr, 0, 1, &out, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_windows_restrict(c_windows(2).get(), "time", 0, 1, nullptr, nullptr), HR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace headrace
