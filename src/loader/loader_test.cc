#include <gtest/gtest.h>
#include <headrace/loader.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "base/access.h"
#include "device/device.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using Shape = std::vector<std::uint64_t>;

const Shape kShape = {23, 12, 16}, kChunk = {4, 5, 8};
constexpr std::int64_t kPadding = 7'000'000;

std::uint32_t value_at(std::span<const std::uint64_t> at, const Shape& shape) {
  std::uint64_t linear = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + at[d];
  return static_cast<std::uint32_t>(linear * 3 + 1);
}

template <class Function>
void for_each_index(const Shape& shape, const Function& function) {
  for (const std::uint64_t extent : shape) {
    if (extent == 0) return;
  }
  Shape at(shape.size());
  for (;;) {
    function(at);
    std::size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

std::string list_of(const Shape& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += (text.empty() ? "" : ",") + std::to_string(extent);
  return "[" + text + "]";
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}

std::string key_of(const Shape& chunk) {
  std::string key = "c";
  for (const std::uint64_t index : chunk) key += "/" + std::to_string(index);
  return key;
}

// An array whose elements tell where they are.
Array make_array(const Store& store, const Shape& shape, const Shape& chunk) {
  const std::string document =
      R"({"zarr_format":3,"node_type":"array","shape":)" + list_of(shape) +
      R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" + list_of(chunk) +
      R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":0,)" +
      R"("codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})";
  EXPECT_TRUE(store.put("zarr.json", bytes_of(document)).ok());
  Shape grid;
  for (std::size_t d = 0; d < shape.size(); ++d) grid.push_back((shape[d] + chunk[d] - 1) / chunk[d]);
  for_each_index(grid, [&](const Shape& number) {
    std::vector<std::uint32_t> elements;
    for_each_index(chunk, [&](const Shape& inside) {
      Shape at(shape.size());
      for (std::size_t d = 0; d < shape.size(); ++d) at[d] = number[d] * chunk[d] + inside[d];
      elements.push_back(value_at(at, shape));
    });
    const auto bytes = std::as_bytes(std::span(elements));
    EXPECT_TRUE(store.put(key_of(number), bytes).ok());
  });
  return Array::open(store).value();
}

ByDim<std::uint64_t> dims(const Shape& shape) {
  const char* const names[] = {"time", "lat", "lon"};
  ByDim<std::uint64_t> out;
  for (std::size_t d = 0; d < shape.size(); ++d) out.emplace_back(names[d + 3 - shape.size()], shape[d]);
  return out;
}

// Of one dimension of a sample: the array's index at each place, -1 for padding.
std::vector<std::int64_t> indices_of(const DimSlice& slice) {
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < slice.count; ++i)
    out.push_back(static_cast<std::int64_t>(slice.begin + i * slice.step));
  for (std::uint64_t i = 0; i < slice.wrapped_count; ++i)
    out.push_back(static_cast<std::int64_t>(slice.wrapped_begin + i * slice.step));
  out.insert(out.end(), slice.padding, -1);
  if (slice.flipped) std::reverse(out.begin(), out.end());
  return out;
}

class LoaderTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto device = Device::open(GetParam());
    if (!device.ok()) GTEST_SKIP() << "cuda: " << device.status().to_string();
    device_ = std::make_unique<Device>(*device);
    ContextOptions options;
    options.threads = 2;
    options.host_budget_bytes = std::size_t{16} << 20;
    context_ = std::make_unique<Context>(Context::create(options).value());
    array_ = std::make_unique<Array>(make_array(new_store(), kShape, kChunk));
  }
  Store new_store() {
    static int number = 0;
    return Store::open(*context_, "memory://loader" + std::to_string(++number)).value();
  }
  static std::vector<std::byte> padding_bytes() {
    const auto element = static_cast<std::uint32_t>(kPadding);
    std::vector<std::byte> out(4);
    std::memcpy(out.data(), &element, 4);
    return out;
  }
  LoaderArray plain(const std::variant<Windows, Crops>& samples) const {
    return {"x", *array_, samples, {}, padding_bytes()};
  }

  static std::vector<std::uint32_t> elements_of(const LoaderBatch& batch, std::size_t tensor) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : batch.tensor(tensor).shape) count *= extent;
    std::vector<std::uint32_t> out(count);
    EXPECT_TRUE(batch.copy_to_host(tensor, 0, reinterpret_cast<std::byte*>(out.data()), count * 4).ok());
    return out;
  }
  // What the sampling parts say that a sample is.
  static std::vector<std::uint32_t> expected(const LoaderArray& array, std::uint64_t seed, std::uint64_t epoch,
                                             std::uint64_t sample, std::size_t output) {
    const auto* const windows = std::get_if<Windows>(&array.samples);
    std::vector<std::uint32_t> out;
    std::vector<DimSlice> slices(array.array.info().shape.size());
    const std::uint64_t count = windows != nullptr ? windows->window_count(sample) : 1;
    for (std::uint64_t window = 0; window < count; ++window) {
      const Status status = windows != nullptr
                                ? windows->slices(sample, window, output, slices)
                                : std::get<Crops>(array.samples).slices(seed, epoch, sample, window, output, slices);
      EXPECT_TRUE(status.ok()) << status.to_string();
      std::vector<std::vector<std::int64_t>> indices;
      Shape shape;
      for (const DimSlice& slice : slices) {
        indices.push_back(indices_of(slice));
        shape.push_back(indices.back().size());
      }
      for_each_index(shape, [&](const Shape& at) {
        Shape from(at.size());
        bool padded = false;
        for (std::size_t d = 0; d < at.size(); ++d) {
          padded = padded || indices[d][at[d]] < 0;
          from[d] = static_cast<std::uint64_t>(indices[d][at[d]]);
        }
        out.push_back(padded ? static_cast<std::uint32_t>(kPadding) : value_at(from, array.array.info().shape));
      });
    }
    return out;
  }
  void check(const LoaderBatch& batch, const std::vector<LoaderArray>& arrays, std::uint64_t seed) const {
    std::size_t number = 0;
    for (const LoaderArray& array : arrays) {
      const auto* const windows = std::get_if<Windows>(&array.samples);
      const Windows& outputs = windows != nullptr ? *windows : std::get<Crops>(array.samples).frames();
      for (std::size_t output = 0; output < outputs.output_count(); ++output, ++number) {
        std::vector<std::uint32_t> wanted;
        for (const std::uint64_t sample : batch.samples()) {
          const auto one = expected(array, seed, batch.epoch(), sample, output);
          wanted.insert(wanted.end(), one.begin(), one.end());
        }
        ASSERT_TRUE(elements_of(batch, number) == wanted)
            << "epoch " << batch.epoch() << ", batch " << batch.number() << ", tensor " << number;
      }
    }
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Array> array_;
};

INSTANTIATE_TEST_SUITE_P(All, LoaderTest, ::testing::Values("host", "host-staged", "cuda"), [](const auto& row) {
  return std::string(row.param) == "host-staged" ? "host_staged" : std::string(row.param);
});

std::vector<WindowOptions> window_options() {
  std::vector<WindowOptions> out;
  out.push_back({.input_dims = {{"time", 2}}});
  out.push_back({.input_dims = {{"time", 4}, {"lat", 5}}, .input_overlap = {{"time", 3}, {"lat", 2}}});
  out.push_back({.input_dims = {{"time", 3}, {"lat", 5}, {"lon", 6}}, .boundary = Boundary::kPad});
  out.push_back({.input_dims = {{"time", 2}, {"lon", 7}}, .boundary_of = {{"lon", Boundary::kWrap}}});
  out.push_back({.input_dims = {{"time", 6}, {"lat", 4}},
                 .input_stride = {{"time", 2}, {"lat", 3}},
                 .boundary = Boundary::kPad,
                 .outputs = {{"x", "time", 0, 2}, {"y", "time", 1, 3, 2}, {"all"}}});
  out.push_back({.input_dims = {{"lat", 5}}, .batch_dims = {{"time", 3}}});
  out.push_back({.input_dims = {{"lat", 6}}, .batch_dims = {{"time", 3}}, .concat_input_dims = true});
  return out;
}

TEST_P(LoaderTest, EveryBatchHoldsItsSamplesInTheOrderOfTheEpoch) {
  std::mt19937_64 random(27);
  for (const WindowOptions& options : window_options()) {
    const Windows windows = Windows::create(dims(kShape), options).value();
    for (int round = 0; round < 4; ++round) {
      const std::vector<LoaderArray> arrays = {plain(windows)};
      LoaderOptions how;
      how.seed = random();
      how.epochs = 2;
      how.split.batch_size = 1 + random() % std::min<std::uint64_t>(windows.sample_count(), 9);
      how.split.tail = static_cast<Tail>(random() % 3);
      how.read_together = 1 + static_cast<std::uint32_t>(random() % 3);
      how.read_ahead = 1 + static_cast<std::uint32_t>(random() % 3);
      if (round > 0) how.order = Order::full_shuffle(windows.sample_count()).value();
      Loader loader = Loader::create(*device_, arrays, how).value();
      const Order order = how.order ? *how.order : Order::sequential(windows.sample_count()).value();
      const Split split = Split::create(how.split, order.positions()).value();
      for (std::uint64_t epoch = 0; epoch < how.epochs; ++epoch) {
        const EpochOrder samples = order.epoch(how.seed, epoch);
        for (std::uint64_t number = 0; number < split.batches(); ++number) {
          EXPECT_EQ(loader.batches_left(), split.batches() - number);
          auto batch = loader.next();
          ASSERT_TRUE(batch.ok()) << batch.status().to_string();
          ASSERT_TRUE(batch->has_value());
          const RankBatch about = split.batch(number);
          std::vector<std::uint64_t> wanted;
          for (std::uint64_t place = 0; place < about.size; ++place)
            wanted.push_back(samples.sample(about.position(place)));
          EXPECT_EQ(std::vector<std::uint64_t>((*batch)->samples().begin(), (*batch)->samples().end()), wanted);
          EXPECT_EQ((*batch)->valid(), about.valid);
          EXPECT_EQ((*batch)->epoch(), epoch);
          EXPECT_EQ((*batch)->number(), number);
          check(**batch, arrays, how.seed);
          if (HasFatalFailure()) return;
        }
        const auto end = loader.next();
        ASSERT_TRUE(end.ok()) << end.status().to_string();
        EXPECT_FALSE(end->has_value());
      }
      EXPECT_FALSE(loader.next().value().has_value());
      EXPECT_EQ(loader.batches_left(), 0u);
      EXPECT_EQ(loader.stats().batches, 2 * split.batches());
    }
  }
}

TEST_P(LoaderTest, CropsAreFlippedAndWrapped) {
  const Windows frames = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  const Crops crops =
      Crops::create(frames, {.size = {{"lat", 5}, {"lon", 9}}, .per_frame = 3, .wrap = {"lon"}, .flip = {"lat", "lon"}})
          .value();
  const std::vector<LoaderArray> arrays = {plain(crops)};
  LoaderOptions how;
  how.order = Order::block_shuffle({.grid = crops.sample_grid(), .group = {2, 3}, .groups_in_buffer = 2}).value();
  how.split.batch_size = 6;
  how.read_together = 2;
  how.seed = 5;
  how.epochs = 3;
  Loader loader = Loader::create(*device_, arrays, how).value();
  EXPECT_EQ(loader.tensors()[0].shape, (Shape{6, 2, 5, 9}));
  std::uint64_t batches = 0;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    while (std::optional<LoaderBatch> batch = loader.next().value()) {
      check(*batch, arrays, how.seed);
      if (HasFatalFailure()) return;
      ++batches;
    }
  }
  EXPECT_EQ(batches, 3 * (crops.sample_count() / 6));
}

TEST_P(LoaderTest, SeveralArraysOfASampleHaveTensorsEach) {
  const Shape flat = {23, 6}, flat_chunk = {10, 6};
  const Array other = make_array(new_store(), flat, flat_chunk);
  ByDim<std::uint64_t> flat_dims = {{"time", 23}, {"station", 6}};
  const Windows windows =
      Windows::create(dims(kShape), {.input_dims = {{"time", 3}}, .input_stride = {{"time", 1}}}).value();
  const Windows stations =
      Windows::create(flat_dims,
                      {.input_dims = {{"time", 3}}, .input_stride = {{"time", 1}}, .outputs = {{"", "time", 2}}})
          .value();
  std::vector<LoaderArray> arrays = {plain(windows), {"stations", other, stations, {}, {}}};
  arrays.push_back({"converted", other, stations, {}, {}});
  arrays.back().read.dtype = "float32";
  arrays.back().read.scale = 0.5;
  LoaderOptions how;
  how.order = Order::full_shuffle(windows.sample_count()).value();
  how.split.batch_size = 4;
  Loader loader = Loader::create(*device_, arrays, how).value();
  ASSERT_EQ(loader.tensors().size(), 3u);
  EXPECT_EQ(loader.tensors()[1].array, "stations");
  EXPECT_EQ(loader.tensors()[1].shape, (Shape{4, 1, 6}));
  EXPECT_EQ(loader.tensors()[2].dtype.item_bytes, 4u);
  const std::vector<LoaderArray> unconverted(arrays.begin(), arrays.begin() + 2);
  std::uint64_t batches = 0;
  while (std::optional<LoaderBatch> batch = loader.next().value()) {
    check(*batch, unconverted, how.seed);
    if (HasFatalFailure()) return;
    const auto stored = elements_of(*batch, 1), bits = elements_of(*batch, 2);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      float value = 0;
      std::memcpy(&value, &bits[i], 4);
      ASSERT_EQ(value, static_cast<float>(stored[i]) * 0.5f);
    }
    ++batches;
  }
  EXPECT_EQ(batches, 5u);
}

TEST_P(LoaderTest, ArraysOfAStackAreChannels) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"lat", 5}},
                                                         .batch_dims = {{"time", 3}},
                                                         .concat_input_dims = true,
                                                         .boundary = Boundary::kPad,
                                                         .outputs = {{"all"}, {"south", "lat", 0, 2}}})
                              .value();
  std::vector<LoaderArray> arrays;
  for (int i = 0; i < 3; ++i) {
    arrays.push_back({"a" + std::to_string(i), *array_, windows, {}, {}});
    arrays.back().stack = "x";
    arrays.back().read.dtype = "float32";
    arrays.back().read.offset = 10'000.0 * i;
  }
  const float padding = -5;
  arrays[1].padding.resize(4);
  std::memcpy(arrays[1].padding.data(), &padding, 4);
  for (const bool last : {false, true}) {
    LoaderOptions how;
    how.channels_last = last;
    how.split.batch_size = 3;
    Loader loader = Loader::create(*device_, arrays, how).value();
    ASSERT_EQ(loader.tensors().size(), 2u);
    EXPECT_EQ(loader.tensors()[0].array, "x");
    EXPECT_EQ(loader.tensors()[1].output, "south");
    EXPECT_EQ(loader.tensors()[0].shape, last ? (Shape{3, 3, 3, 5, 16, 3}) : (Shape{3, 3, 3, 3, 5, 16}));
    while (std::optional<LoaderBatch> batch = loader.next().value()) {
      for (std::size_t tensor = 0; tensor < 2; ++tensor) {
        const auto bits = elements_of(*batch, tensor);
        const std::uint64_t inside = 3 * (tensor == 0 ? 5 : 2) * 16;  // of a window
        for (std::uint64_t place = 0; place < 3; ++place) {
          const auto stored =
              expected({"", *array_, windows, {}, padding_bytes()}, 0, 0, batch->samples()[place], tensor);
          for (std::uint64_t i = 0; i < stored.size(); ++i) {
            const std::uint64_t window = i / inside, at = i % inside;
            for (std::uint64_t channel = 0; channel < 3; ++channel) {
              const std::uint64_t first = (place * 3 + window) * 3 * inside;
              float value = 0;
              std::memcpy(&value, &bits[first + (last ? at * 3 + channel : channel * inside + at)], 4);
              const bool padded = stored[i] == static_cast<std::uint32_t>(kPadding);
              const float wanted = padded ? (channel == 1 ? padding : 0)
                                          : static_cast<float>(stored[i]) + 10'000.0f * static_cast<float>(channel);
              ASSERT_EQ(value, wanted) << "tensor " << tensor << ", place " << place << ", element " << i;
            }
          }
        }
      }
    }
  }
  arrays[1].read.dtype = "float64";
  arrays[1].padding.clear();
  EXPECT_NE(Loader::create(*device_, arrays, {}).status().to_string().find("'a1' in stack 'x'"), std::string::npos);
  arrays.erase(arrays.begin() + 1, arrays.end());
  arrays.push_back({"x", *array_, windows, {}, {}});
  EXPECT_NE(Loader::create(*device_, arrays, {}).status().to_string().find("array and of a stack"), std::string::npos);
}

// However many ranks go on, what is left of the epoch comes once each.
TEST_P(LoaderTest, AStateGoesOnWithWhatIsLeft) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}, {"lat", 3}}}).value();
  LoaderOptions how;
  how.order = Order::full_shuffle(windows.sample_count()).value();
  how.split = {.batch_size = 3, .tail = Tail::kPad};
  how.seed = 99;
  how.read_ahead = 3;
  std::multiset<std::uint64_t> seen;
  std::string text;
  {
    Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
    for (int i = 0; i < 5; ++i) {
      const std::optional<LoaderBatch> batch = loader.next().value();
      seen.insert(batch->samples().begin(), batch->samples().end());
    }
    text = loader.state().to_json();
  }
  how.seed = 0;  // the state has it
  how.state = LoaderState::from_json(text).value();
  how.split.world = 2;
  how.split.batch_size = 4;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    how.split.rank = rank;
    Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
    while (const std::optional<LoaderBatch> batch = loader.next().value()) {
      const auto valid = batch->samples().first(batch->valid());
      seen.insert(valid.begin(), valid.end());
      check(*batch, {plain(windows)}, 99);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(loader.state().at, (LoaderPosition{1, 0}));
  }
  EXPECT_EQ(seen.size(), windows.sample_count());
  EXPECT_EQ(std::set<std::uint64_t>(seen.begin(), seen.end()).size(), windows.sample_count());

  const Windows others = Windows::create(dims(kShape), {.input_dims = {{"time", 1}, {"lat", 4}}}).value();
  how.order = Order::full_shuffle(others.sample_count()).value();
  const Status refused = Loader::create(*device_, {plain(others)}, how).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.to_string().find("differs"), std::string::npos) << refused.to_string();
}

// 23 frames in chunks of four: a read of the whole epoch reads each chunk once, reads of a batch each read some again.
TEST_P(LoaderTest, BatchesReadTogetherReadAChunkOnce) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}}}).value();
  const std::uint64_t chunks = array_->info().chunk_count;
  LoaderOptions how;
  how.order = Order::full_shuffle(windows.sample_count()).value();
  how.split = {.batch_size = 4, .tail = Tail::kPad};
  for (const std::uint32_t together : {1u, 6u}) {
    how.read_together = together;
    Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
    while (loader.next().value()) {
    }
    if (together == 6) {
      EXPECT_EQ(loader.stats().reads.chunks, chunks);
    } else {
      EXPECT_GT(loader.stats().reads.chunks, 2 * chunks);
    }
  }
}

TEST_P(LoaderTest, WhoHoldsAllBatchesIsTold) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}}}).value();
  LoaderOptions how;
  how.memory_bytes = 5 * 12 * 16 * 4;
  Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
  std::vector<LoaderBatch> held;
  Status refused;
  for (int i = 0; i < 10 && refused.ok(); ++i) {
    auto batch = loader.next();
    if (batch.ok()) {
      held.push_back(std::move(**batch));
    } else {
      refused = batch.status();
    }
  }
  EXPECT_EQ(held.size(), 5u);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted) << refused.to_string();
  for (const LoaderBatch& batch : held) check(batch, {plain(windows)}, 0);
  held.erase(held.begin());
  const std::optional<LoaderBatch> next = loader.next().value();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->number(), 5u);
  check(*next, {plain(windows)}, 0);
}

TEST_P(LoaderTest, ADamagedChunkFailsItsBatchAndNoOther) {
  const Store store = new_store();
  const Array array = make_array(store, kShape, kChunk);
  ASSERT_TRUE(store.put("c/2/1/1", bytes_of("short")).ok());  // frames 8 to 11
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}}}).value();
  const std::vector<LoaderArray> arrays = {{"x", array, windows, {}, {}}};
  LoaderOptions how;
  how.split.batch_size = 2;
  Loader loader = Loader::create(*device_, arrays, how).value();
  std::set<std::uint64_t> seen;
  int failures = 0;
  for (bool more = true; more;) {
    auto batch = loader.next();
    if (!batch.ok()) {
      EXPECT_NE(batch.status().to_string().find("c/2/1/1"), std::string::npos) << batch.status().to_string();
      ++failures;
      continue;
    }
    more = batch->has_value();
    if (!more) break;
    check(**batch, arrays, 0);
    if (HasFatalFailure()) return;
    seen.insert((*batch)->samples().begin(), (*batch)->samples().end());
  }
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(seen.size(), 18u);
  EXPECT_EQ(seen.count(9), 0u);
  EXPECT_EQ(loader.stats().skipped, 2u);

  how.on_damage = OnDamage::kSkip;
  how.read_together = 2;
  Loader skips = Loader::create(*device_, arrays, how).value();
  std::uint64_t batches = 0;
  while (skips.next().value()) ++batches;
  EXPECT_EQ(batches, 9u);
  EXPECT_EQ(skips.stats().skipped, 2u);
  EXPECT_EQ(skips.state().at, (LoaderPosition{1, 0}));
}

TEST_P(LoaderTest, MayBeDroppedAtAnyMoment) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  const std::size_t descriptors = support::open_descriptors();
  std::optional<LoaderBatch> kept;
  for (int i = 0; i < (support::kThreadSanitizer ? 50 : 1000); ++i) {
    LoaderOptions how;
    how.epochs = 0;
    how.order = Order::full_shuffle(windows.sample_count()).value();
    how.seed = static_cast<std::uint64_t>(i);
    Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
    for (int k = 0; k < i % 5; ++k) kept = loader.next().value();
  }
  check(*kept, {plain(windows)}, (support::kThreadSanitizer ? 49 : 999));  // outlives its loader
  EXPECT_LE(support::descriptors_left(descriptors), descriptors);
}

TEST_P(LoaderTest, CancellingEndsIt) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  LoaderOptions how;
  how.epochs = 0;
  Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
  EXPECT_TRUE(loader.next().ok());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    loader.cancel();
  });
  Status end;
  while (end.ok()) {
    while (!loader.wait_for(std::chrono::milliseconds(5))) {
    }
    end = loader.next().status();
  }
  other.join();
  EXPECT_EQ(end.code(), Code::kCancelled) << end.to_string();
}

TEST_P(LoaderTest, AChildProcessIsRefused) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  LoaderOptions how;
  how.epochs = 0;
  auto loader = std::make_unique<Loader>(Loader::create(*device_, {plain(windows)}, how).value());
  auto batch = std::make_unique<std::optional<LoaderBatch>>(loader->next().value());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = loader->next().status().code() == Code::kForked;
    batch.reset();
    loader.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  check(**batch, {plain(windows)}, 0);
  EXPECT_TRUE(loader->next().ok());
}

// A consumer whose stream has yet to get to a batch gives it back by that stream: nothing is read into it before.
TEST(LoaderStreams, ABatchIsKeptUntilItsStreamIsThrough) {
  const Context context = Context::create({}).value();
  const Device device = Device::open("host-staged").value();
  const Array array = make_array(Store::open(context, "memory://loader-streams").value(), kShape, kChunk);
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}}}).value();
  LoaderOptions how;
  how.read_ahead = 1;
  Loader loader = Loader::create(device, {{"x", array, windows, {}, {}}}, how).value();
  device::Device& impl = *Access::impl(device);
  const auto stream = impl.create_stream().value();
  void* const native = impl.native_handle(*stream);
  struct Late {
    std::span<const std::byte> memory;
    std::vector<std::byte> was;
    bool same = false;
  };
  std::vector<std::unique_ptr<Late>> looks;
  for (int i = 0; i < 12; ++i) {
    std::optional<LoaderBatch> batch = loader.next().value();
    ASSERT_TRUE(batch.has_value());
    auto look = std::make_unique<Late>();
    look->memory = batch->tensor(0).memory;
    look->was.assign(look->memory.begin(), look->memory.end());
    ASSERT_TRUE(impl.call_host(
                        native,
                        [](void* data) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(20));
                          auto& late = *static_cast<Late*>(data);
                          late.same = std::equal(late.was.begin(), late.was.end(), late.memory.begin());
                        },
                        look.get())
                    .ok());
    looks.push_back(std::move(look));
    EXPECT_TRUE(batch->release({&native, 1}).ok());
  }
  const auto event = impl.create_event().value();
  ASSERT_TRUE(impl.record(*event, *stream).ok());
  ASSERT_TRUE(impl.synchronize(*event).ok());
  for (const auto& look : looks) EXPECT_TRUE(look->same);
}

TEST_P(LoaderTest, RefusalsNameWhatIsWrong) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  const Windows fewer = Windows::create(dims(kShape), {.input_dims = {{"time", 3}}}).value();
  const Windows smaller = Windows::create(dims({23, 12, 15}), {.input_dims = {{"time", 2}}}).value();
  const Windows partial =
      Windows::create(dims(kShape), {.input_dims = {{"time", 2}}, .boundary = Boundary::kPartial}).value();
  struct Row {
    std::vector<LoaderArray> arrays;
    LoaderOptions options;
    Code code;
    const char* names;
  };
  std::vector<Row> rows;
  const auto add = [&](Code code, const char* names) -> Row& {
    rows.push_back({{plain(windows)}, {}, code, names});
    return rows.back();
  };
  add(Code::kInvalidArgument, "array").arrays.clear();
  add(Code::kInvalidArgument, "two arrays").arrays.push_back(plain(windows));
  Row& counts = add(Code::kInvalidArgument, "'y' has 7 samples");
  counts.arrays.push_back(plain(fewer));
  counts.arrays.back().name = "y";
  add(Code::kInvalidArgument, "(23, 12, 15)").arrays = {plain(smaller)};
  add(Code::kInvalidArgument, "last sample is smaller").arrays = {plain(partial)};
  add(Code::kInvalidArgument, "padding").arrays[0].padding.resize(3);
  add(Code::kInvalidArgument, "collect_errors").arrays[0].read.collect_errors = true;
  add(Code::kInvalidArgument, "order").options.order = Order::sequential(12).value();
  add(Code::kInvalidArgument, "rank").options.split.rank = 1;
  add(Code::kInvalidArgument, "world").options.split.world = 0;
  add(Code::kInvalidArgument, "batch").options.split.batch_size = 0;
  add(Code::kInvalidArgument, "batch").options.split.batch_size = 12;
  add(Code::kInvalidArgument, "bytes").options.split.batch_size = std::uint64_t{1} << 61;
  add(Code::kInvalidArgument, "read_together").options.read_together = 0;
  add(Code::kInvalidArgument, "read_ahead").options.read_ahead = 0;
  add(Code::kResourceExhausted, "memory_bytes").options.memory_bytes = 2000;
  for (const Row& row : rows) {
    const Status status = Loader::create(*device_, row.arrays, row.options).status();
    EXPECT_EQ(status.code(), row.code) << row.names << ": " << status.to_string();
    EXPECT_NE(status.to_string().find(row.names), std::string::npos) << row.names << ": " << status.to_string();
  }
}

}  // namespace
}  // namespace headrace
