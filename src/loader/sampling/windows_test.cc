// Windows begin at multiples of the stride for every boundary; each misuse names its parameter; nothing is tabulated.
#include <gtest/gtest.h>
#include <headrace/split.h>
#include <headrace/windows.h>

#include <chrono>
#include <random>
#include <string>

namespace headrace {
namespace {

constexpr std::uint64_t kLargest = (std::uint64_t{1} << 63) - 1;

std::string refusal(const ByDim<std::uint64_t>& dims, const WindowOptions& options) {
  const auto windows = Windows::create(dims, options);
  if (windows.ok()) return "accepted";
  EXPECT_EQ(windows.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(windows.status().layer(), Layer::kApi);
  return windows.status().message();
}

std::vector<DimSlice> slices(const Windows& windows, std::uint64_t sample, std::uint64_t window = 0,
                             std::size_t output = 0) {
  std::vector<DimSlice> out(windows.dim_count());
  const Status status = windows.slices(sample, window, output, out);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

// The elements of a window, one by one; beyond the end as the boundary says, -1 for padding.
std::vector<std::int64_t> elements_of(std::uint64_t extent, std::uint64_t begin, std::uint64_t count,
                                      Boundary boundary) {
  std::vector<std::int64_t> elements;
  for (std::uint64_t at = begin; at < begin + count; ++at) {
    if (at < extent) {
      elements.push_back(static_cast<std::int64_t>(at));
    } else if (boundary == Boundary::kWrap) {
      elements.push_back(static_cast<std::int64_t>(at - extent));
    } else if (boundary == Boundary::kPad) {
      elements.push_back(-1);
    }
  }
  return elements;
}

std::vector<std::int64_t> elements_of(const DimSlice& slice, std::uint64_t extent) {
  std::vector<std::int64_t> elements;
  for (std::uint64_t i = 0; i < slice.count; ++i)
    elements.push_back(static_cast<std::int64_t>(slice.begin + i * slice.step));
  for (std::uint64_t i = 0; i < slice.wrapped_count; ++i) {
    elements.push_back(static_cast<std::int64_t>(slice.wrapped_begin + i * slice.step));
  }
  for (const std::int64_t element : elements) EXPECT_LT(element, static_cast<std::int64_t>(extent));
  elements.insert(elements.end(), slice.padding, -1);
  EXPECT_EQ(elements.size(), slice.size());
  return elements;
}

// The beginnings of windows, found by walking along the dimension.
std::vector<std::uint64_t> begins_of(std::uint64_t extent, std::uint64_t window, std::uint64_t stride,
                                     Boundary boundary) {
  std::vector<std::uint64_t> begins;
  for (std::uint64_t begin = 0; begin < extent; begin += stride) {
    if (boundary == Boundary::kDrop && begin + window > extent) break;
    const bool last_is_there = !begins.empty() && begins.back() + window >= extent;
    if ((boundary == Boundary::kPad || boundary == Boundary::kPartial) && last_is_there) break;
    begins.push_back(begin);
  }
  return begins;
}

TEST(Windows, AreThoseThatCountingGives) {
  for (const Boundary boundary : {Boundary::kDrop, Boundary::kPartial, Boundary::kPad, Boundary::kWrap}) {
    for (std::uint64_t extent = 1; extent <= 13; ++extent) {
      for (std::uint64_t window = 1; window <= extent; ++window) {
        for (std::uint64_t stride = 1; stride <= extent + 2; ++stride) {
          WindowOptions options;
          options.input_dims = {{"x", window}};
          options.input_stride = {{"x", stride}};
          options.boundary = boundary;
          const Windows windows = Windows::create({{"x", extent}}, options).value();
          const auto begins = begins_of(extent, window, stride, boundary);
          ASSERT_EQ(windows.sample_count(), begins.size()) << extent << " " << window << " " << stride;
          for (std::size_t i = 0; i < begins.size(); ++i) {
            EXPECT_EQ(elements_of(slices(windows, i)[0], extent), elements_of(extent, begins[i], window, boundary));
          }
        }
      }
    }
  }
}

TEST(Windows, AnOverlapIsAStride) {
  WindowOptions by_overlap, by_stride;
  by_overlap.input_dims = by_stride.input_dims = {{"x", 5}};
  by_overlap.input_overlap = {{"x", 3}};
  by_stride.input_stride = {{"x", 2}};
  const Windows one = Windows::create({{"x", 20}}, by_overlap).value();
  EXPECT_EQ(one.sample_count(), 8u);
  EXPECT_EQ(one.schema(), Windows::create({{"x", 20}}, by_stride).value().schema());
}

TEST(Windows, MayBeginWhereAListSays) {
  for (const Boundary boundary : {Boundary::kDrop, Boundary::kPartial, Boundary::kPad, Boundary::kWrap}) {
    WindowOptions options;
    options.input_dims = {{"x", 4}, {"y", 2}};
    options.input_starts = {{"x", {1, 2, 7, 9}}};
    options.boundary = boundary;
    if (boundary != Boundary::kDrop) options.input_starts[0].second.push_back(11);
    const auto& starts = options.input_starts[0].second;
    const Windows windows = Windows::create({{"x", 13}, {"y", 4}}, options).value();
    ASSERT_EQ(windows.sample_count(), 2 * starts.size());
    EXPECT_EQ(windows.sample_grid(), (std::vector<std::uint64_t>{starts.size(), 2}));
    for (std::size_t i = 0; i < starts.size(); ++i) {
      EXPECT_EQ(elements_of(slices(windows, 2 * i + 1)[0], 13), elements_of(13, starts[i], 4, boundary));
    }
    const Windows some = windows.restrict("x", 1, 2).value();
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(slices(some, i), slices(windows, 2 + i));
    WindowOptions others = options;
    others.input_starts[0].second[1] = 3;
    EXPECT_EQ(windows.schema().differences(Windows::create({{"x", 13}, {"y", 4}}, others).value().schema()),
              (std::vector<std::string>{"range"}));
    EXPECT_EQ(divide_windows(windows, "x", {1, 1}, false).status().message(),
              "dim: dimension 'x': input_starts sets where its windows begin; divide those starts instead");
  }
}

TEST(Windows, BatchDimsComeFirstAndTheLastInputDimIsFastest) {
  WindowOptions options;
  options.input_dims = {{"lon", 4}, {"lat", 3}};
  options.batch_dims = {{"time", 1}};
  options.boundary_of = {{"lon", Boundary::kWrap}};
  const Windows windows = Windows::create({{"time", 2}, {"level", 7}, {"lat", 6}, {"lon", 10}}, options).value();
  EXPECT_EQ(windows.sample_grid(), (std::vector<std::uint64_t>{2, 3, 2}));
  EXPECT_EQ(windows.sample_count(), 12u);
  EXPECT_EQ(slices(windows, 11), (std::vector<DimSlice>{{1, 1}, {0, 7}, {3, 3}, {8, 2, 1, 0, 2}}));
  EXPECT_EQ(slices(windows, 6), (std::vector<DimSlice>{{1, 1}, {0, 7}, {0, 3}, {0, 4}}));
}

TEST(Windows, ConcatenatedSamplesHaveAllWindowsOfTheirBatch) {
  // Windows begin at 0, 2, ... 14 of 16. Batches of 10 elements have five each; with the overlap the second has fewer.
  WindowOptions options;
  options.input_dims = {{"x", 5}};
  options.input_overlap = {{"x", 3}};
  options.batch_dims = {{"x", 10}};
  options.concat_input_dims = true;
  const Windows windows = Windows::create({{"x", 20}}, options).value();
  EXPECT_EQ(windows.sample_count(), 2u);
  EXPECT_EQ(windows.window_count(), 5u);
  EXPECT_EQ(windows.window_count(0), 5u);
  EXPECT_EQ(windows.window_count(1), 3u);
  EXPECT_EQ(slices(windows, 1, 2), (std::vector<DimSlice>{{14, 5}}));
  std::vector<DimSlice> out(1);
  EXPECT_EQ(windows.slices(1, 3, 0, out).message(), "window 3 of sample 1, which has 3");
}

TEST(Windows, OutputsArePartsOfTheWindow) {
  WindowOptions options;
  options.input_dims = {{"time", 25}};
  options.input_stride = {{"time", 6}};
  options.boundary = Boundary::kPad;
  options.outputs = {{"x", "time", 0, 1}, {"y", "time", 6, 4, 6}, {"all"}};
  const Windows windows = Windows::create({{"time", 40}, {"lat", 3}}, options).value();
  ASSERT_EQ(windows.output_count(), 3u);
  EXPECT_EQ(windows.sample_count(), 4u);
  EXPECT_EQ(slices(windows, 3, 0, 0), (std::vector<DimSlice>{{18, 1}, {0, 3}}));
  EXPECT_EQ(slices(windows, 1, 0, 1), (std::vector<DimSlice>{{12, 4, 6}, {0, 3}}));
  // 24, 30 and 36 exist, 42 does not.
  EXPECT_EQ(slices(windows, 3, 0, 1), (std::vector<DimSlice>{{24, 3, 6, 0, 0, 1}, {0, 3}}));
  EXPECT_EQ(slices(windows, 3, 0, 2), (std::vector<DimSlice>{{18, 22, 1, 0, 0, 3}, {0, 3}}));
  options.boundary = Boundary::kWrap;
  // 36 exists; 42, 48 and 54 wrap to 2, 8 and 14.
  EXPECT_EQ(slices(Windows::create({{"time", 40}}, options).value(), 5, 0, 1),
            (std::vector<DimSlice>{{36, 1, 6, 2, 3}}));
  // The window has the last element, but y has none.
  EXPECT_EQ(slices(Windows::create({{"time", 37}}, options).value(), 6, 0, 1),
            (std::vector<DimSlice>{{0, 0, 6, 5, 4}}));
}

TEST(Windows, RestrictedAreTheSameWindows) {
  WindowOptions options;
  options.input_dims = {{"time", 2}, {"lat", 3}};
  const ByDim<std::uint64_t> dims = {{"time", 20}, {"lat", 9}};
  const Windows all = Windows::create(dims, options).value();
  const Windows some = all.restrict("time", 4, 3).value();
  EXPECT_EQ(some.sample_count(), 9u);
  for (std::uint64_t i = 0; i < 9; ++i) EXPECT_EQ(slices(some, i), slices(all, 4 * 3 + i));
  EXPECT_EQ(slices(some.restrict("time", 1, 1).value(), 0), slices(all, 15));
  EXPECT_EQ(all.schema().differences(some.schema()), (std::vector<std::string>{"range"}));
  for (const auto& [first, count] : {std::pair{0ul, 0ul}, {10ul, 1ul}, {4ul, 7ul}, {1ul, ~0ul}}) {
    EXPECT_FALSE(all.restrict("time", first, count).ok());
  }
  EXPECT_EQ(all.restrict("depth", 0, 1).status().message(), "dim: there are no windows along a dimension 'depth'");
}

TEST(Windows, SayHowManyBeginInAChunk) {
  WindowOptions options;
  options.input_dims = {{"time", 2}, {"lat", 8}};
  options.input_overlap = {{"lat", 4}};
  const Windows windows = Windows::create({{"time", 100}, {"lat", 64}}, options).value();
  const auto group = [&](std::vector<std::uint64_t> chunk) { return windows.samples_per_chunk(chunk).value(); };
  EXPECT_EQ(group({10, 64}), (std::vector<std::uint64_t>{5, 15}));
  EXPECT_EQ(group({1, 16}), (std::vector<std::uint64_t>{1, 4}));
  EXPECT_EQ(windows.samples_per_chunk(std::vector<std::uint64_t>{1}).status().message(),
            "chunk_shape: 1 dimensions, but the array has 2");
  EXPECT_FALSE(windows.samples_per_chunk(std::vector<std::uint64_t>{1, 0}).ok());
}

TEST(Windows, MisuseNamesTheParameter) {
  const ByDim<std::uint64_t> dims = {{"time", 20}, {"lat", 10}};
  const auto with = [](auto change) {
    WindowOptions options;
    options.input_dims = {{"time", 4}};
    change(options);
    return options;
  };
  const std::vector<std::pair<WindowOptions, std::string>> rows = {
      {with([](auto& o) {
         o.input_dims = {{"lon", 4}};
       }),
       "input_dims: there is no dimension 'lon'; the array has 'time', 'lat'"},
      {with([](auto& o) {
         o.input_dims = {{"time", 0}};
       }),
       "input_dims: dimension 'time': a window of 0 elements"},
      {with([](auto& o) {
         o.input_dims = {{"time", 21}};
       }),
       "input_dims: dimension 'time': a window of 21 elements, but it has 20"},
      {with([](auto& o) {
         o.input_dims = {{"time", 2}, {"time", 3}};
       }),
       "input_dims: dimension 'time': given twice"},
      {with([](auto& o) {
         o.input_starts = {{"lat", {0}}};
       }),
       "input_starts: dimension 'lat': it has no windows: neither input_dims nor batch_dims has it"},
      {with([](auto& o) {
         o.input_starts = {{"time", {0}}};
         o.input_stride = {{"time", 2}};
       }),
       "input_starts: dimension 'time': input_overlap or input_stride is also set; give only one of them"},
      {with([](auto& o) {
         o.input_starts = {{"time", {}}};
       }),
       "input_starts: dimension 'time': no window at all"},
      {with([](auto& o) {
         o.input_starts = {{"time", {3, 3}}};
       }),
       "input_starts: dimension 'time': starts must ascend: 3 follows 3"},
      {with([](auto& o) {
         o.input_starts = {{"time", {0, 17}}};
       }),
       "input_starts: dimension 'time': a window of 4 elements at 17, but it has 20"},
      {with([](auto& o) {
         o.input_starts = {{"time", {0, 4}}};
         o.batch_dims = {{"time", 8}};
         o.concat_input_dims = true;
       }),
       "input_starts: dimension 'time': input_dims and batch_dims both have it, which needs a stride"},
      {with([](auto& o) {
         o.batch_dims = {{"lat", 11}};
       }),
       "batch_dims: dimension 'lat': a window of 11 elements, but it has 10"},
      {with([](auto& o) {
         o.batch_dims = {{"lon", 1}};
       }),
       "batch_dims: there is no dimension 'lon'; the array has 'time', 'lat'"},
      {with([](auto& o) {
         o.input_overlap = {{"time", 4}};
       }),
       "input_overlap: dimension 'time': 4 elements, but a window has no more than 4"},
      {with([](auto& o) {
         o.input_overlap = {{"lat", 1}};
       }),
       "input_overlap: dimension 'lat': it has no windows: neither input_dims nor batch_dims has it"},
      {with([](auto& o) {
         o.input_stride = {{"lat", 1}};
       }),
       "input_stride: dimension 'lat': it has no windows: neither input_dims nor batch_dims has it"},
      {with([](auto& o) {
         o.boundary_of = {{"lat", Boundary::kPad}};
       }),
       "boundary_of: dimension 'lat': it has no windows: neither input_dims nor batch_dims has it"},
      {with([](auto& o) {
         o.input_stride = {{"time", 0}};
       }),
       "input_stride: dimension 'time': a stride of 0"},
      {with([](auto& o) {
         o.input_stride = {{"time", kLargest + 1}};
       }),
       "input_stride: dimension 'time': a stride above 2^63 - 1"},
      {with([](auto& o) {
         o.input_overlap = {{"time", 1}};
         o.input_stride = {{"time", 1}};
       }),
       "input_stride: dimension 'time': input_overlap is also set; give only one of them"},
      {with([](auto& o) { o.boundary = static_cast<Boundary>(4); }),
       "boundary: dimension 'time': not a value of Boundary"},
      {with([](auto& o) {
         o.outputs = {{"x", "lat", 0, 1}};
       }),
       "outputs: 'x': input_dims has no dimension 'lat'"},
      {with([](auto& o) {
         o.outputs = {{"x", "time", 0, 0}};
       }),
       "outputs: 'x': a count or step of 0"},
      {with([](auto& o) {
         o.outputs = {{"x", "time", 0, 1, 0}};
       }),
       "outputs: 'x': a count or step of 0"},
      {with([](auto& o) {
         o.outputs = {{"x", "time", 1, 4}};
       }),
       "outputs: 'x': takes 4 elements in steps of 1 from 1 on, beyond the window of 4 along 'time'"},
      {with([](auto& o) {
         o.outputs = {{"x", "time", 1, 3, ~0ull}};
       }),
       "outputs: 'x': takes 3 elements in steps of 18446744073709551615 from 1 on, beyond the window of 4 along "
       "'time'"},
      {with([](auto& o) {
         o.outputs = {{"x"}, {"x"}};
       }),
       "outputs: 'x': given twice"},
      {with([](auto& o) {
         o.concat_input_dims = true;
         o.boundary = Boundary::kPartial;
       }),
       "boundary: dimension 'time': kPartial makes windows of several sizes, which concat_input_dims cannot put into "
       "one "
       "sample"},
      {with([](auto& o) {
         o.concat_input_dims = true;
         o.batch_dims = {{"time", 8}};
         o.boundary = Boundary::kPad;
       }),
       "boundary: dimension 'time': only kDrop where input_dims and batch_dims both have it"},
      {with([](auto& o) {
         o.concat_input_dims = true;
         o.batch_dims = {{"time", 21}};
       }),
       "batch_dims: dimension 'time': a batch of 21 elements, but it has 20"},
      {with([](auto& o) {
         o.concat_input_dims = true;
         o.batch_dims = {{"time", 0}};
       }),
       "batch_dims: dimension 'time': a batch of 0 elements"},
  };
  for (const auto& [options, message] : rows) EXPECT_EQ(refusal(dims, options), message);
  const WindowOptions one = with([](auto&) {});
  EXPECT_EQ(refusal({{"time", 0}}, one), "dims: dimension 'time': has no elements");
  EXPECT_EQ(refusal({{"time", kLargest + 1}}, one), "dims: dimension 'time': has more than 2^63 - 1 elements");
  EXPECT_EQ(refusal({{"time", 9}, {"time", 9}}, one), "dims: dimension 'time': given twice");
  EXPECT_EQ(refusal({}, one), "input_dims: there is no dimension 'time'; the array has none");
  EXPECT_EQ(refusal(ByDim<std::uint64_t>(33, {"time", 1}), one), "dims: 33 dimensions, at most 32 can have windows");
  // A hostile name is shortened.
  EXPECT_LT(refusal({{std::string(1 << 20, 'x'), 0}}, one).size(), 200u);
}

TEST(Windows, ProductsDoNotOverflow) {
  WindowOptions options;
  options.input_dims = {{"a", 1}, {"b", 1}};
  EXPECT_EQ(refusal({{"a", kLargest}, {"b", 3}}, options), "input_dims and batch_dims: more than 2^63 samples");
  EXPECT_EQ(refusal({{"a", std::uint64_t{1} << 62}, {"b", 3}}, options),
            "input_dims and batch_dims: more than 2^63 samples");
  EXPECT_EQ(Windows::create({{"a", std::uint64_t{1} << 62}, {"b", 2}}, options).value().sample_count(),
            std::uint64_t{1} << 63);
  options.concat_input_dims = true;
  EXPECT_EQ(refusal({{"a", kLargest}, {"b", 3}}, options), "concat_input_dims: more than 2^63 windows in a sample");
  // The last window of the largest dimension.
  for (const Boundary boundary : {Boundary::kDrop, Boundary::kPartial, Boundary::kPad, Boundary::kWrap}) {
    WindowOptions large;
    large.input_dims = {{"a", kLargest - 1}};
    large.input_stride = {{"a", kLargest - 2}};
    large.boundary = boundary;
    const Windows windows = Windows::create({{"a", kLargest}}, large).value();
    ASSERT_EQ(windows.sample_count(), boundary == Boundary::kDrop ? 1u : 2u);
    const DimSlice last = slices(windows, windows.sample_count() - 1)[0];
    EXPECT_EQ(last.begin + last.count, boundary == Boundary::kDrop ? kLargest - 1 : kLargest);
    EXPECT_EQ(last.size(), boundary == Boundary::kPartial ? 2 : kLargest - 1);
  }
}

TEST(Windows, NumbersOutOfRangeAreRefused) {
  WindowOptions options;
  options.input_dims = {{"x", 2}};
  const Windows windows = Windows::create({{"x", 10}, {"y", 1}}, options).value();
  std::vector<DimSlice> out(2);
  EXPECT_EQ(windows.slices(5, 0, 0, out).message(), "sample 5 of 5");
  EXPECT_EQ(windows.slices(0, 1, 0, out).message(), "window 1 of sample 0, which has 1");
  EXPECT_EQ(windows.slices(0, 0, 1, out).message(), "output 1 of 1");
  EXPECT_EQ(windows.slices(0, 0, 0, std::span(out).first(1)).message(),
            "out: room for 1 slices, but the array has 2 dimensions");
}

TEST(Windows, TenBillionSamplesCostNoMoreThanTen) {
  WindowOptions options;
  options.input_dims = {{"lat", 2}, {"lon", 2}};
  options.batch_dims = {{"time", 1}};
  const ByDim<std::uint64_t> dims = {{"time", 100'000}, {"lat", 631}, {"lon", 633}};
  auto fastest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto windows = Windows::create(dims, options);
    fastest = std::min<std::chrono::nanoseconds>(fastest, std::chrono::steady_clock::now() - begin);
    ASSERT_TRUE(windows.ok());
    ASSERT_GE(windows->sample_count(), 9'900'000'000u);
    ASSERT_EQ(slices(*windows, windows->sample_count() - 1), (std::vector<DimSlice>{{99'999, 1}, {628, 2}, {630, 2}}));
  }
  EXPECT_LT(fastest, std::chrono::milliseconds(1));
}

TEST(Windows, SchemasDifferInWhatDiffers) {
  const ByDim<std::uint64_t> dims = {{"time", 20}, {"lat", 10}};
  WindowOptions options;
  options.input_dims = {{"time", 4}};
  const LoaderSchema schema = Windows::create(dims, options).value().schema();
  const auto differs = [&](const ByDim<std::uint64_t>& other_dims, auto change) {
    WindowOptions other = options;
    change(other);
    const auto names = schema.differences(Windows::create(other_dims, other).value().schema());
    std::string text;
    for (const std::string& name : names) text += name + " ";
    return text;
  };
  EXPECT_EQ(differs(dims, [](auto&) {}), "");
  EXPECT_EQ(differs({{"time", 20}, {"lat", 11}}, [](auto&) {}), "dims ");
  EXPECT_EQ(differs(dims, [](auto& o) { o.input_stride = {{"time", 2}}; }), "range stride ");
  EXPECT_EQ(differs(dims, [](auto& o) { o.boundary = Boundary::kWrap; }), "boundary ");
  EXPECT_EQ(differs(dims, [](auto& o) { o.outputs = {{"x", "time", 1}}; }), "outputs ");
  EXPECT_EQ(differs(dims, [](auto& o) { o.concat_input_dims = true; }), "concat_input_dims range ");
}

}  // namespace
}  // namespace headrace
