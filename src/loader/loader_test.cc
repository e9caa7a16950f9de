// A batch holds its samples in the order of the epoch, whether they are read together, stacked or resumed.
#include <gtest/gtest.h>
#include <headrace/loader.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>

#include "base/access.h"
#include "base/trace.h"
#include "device/device.h"
#include "loader/loader_testing.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace testing;

TEST(LoaderBatch, DefaultBatchIsEmpty) {
  LoaderBatch batch;
  EXPECT_EQ(batch.valid(), 0u);
  EXPECT_TRUE(batch.samples().empty());
  EXPECT_TRUE(batch.release({}).ok());
}

INSTANTIATE_TEST_SUITE_P(All, LoaderTest, ::testing::Values("host", "host-staged", "cuda"), loader_device_name);

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

// Positions with runs in both directions, gaps and repeated elements.
std::vector<std::int64_t> random_positions(std::mt19937_64& random, std::size_t count, std::uint64_t extent) {
  std::vector<std::int64_t> out;
  while (out.size() < count) {
    auto at = static_cast<std::int64_t>(random() % extent);
    const std::int64_t step = static_cast<std::int64_t>(random() % 7) - 3;
    for (std::uint64_t run = 1 + random() % 9; run > 0 && at >= 0 && at < static_cast<std::int64_t>(extent); --run) {
      out.push_back(at);
      at += step;
    }
    if (random() % 4 == 0) out.push_back(-1);
  }
  out.resize(count);
  return out;
}

TEST_P(LoaderTest, ArraysMayBeAlignedByPositions) {
  std::mt19937_64 random(8);
  const Shape common = {31, 9, 16};
  WindowOptions whole{.input_dims = {{"time", 6}}, .outputs = {{"x", "time", 0, 3, 2}, {"all"}}};
  WindowOptions listed{.input_dims = {{"time", 5}, {"lat", 4}}, .input_starts = {{"time", {0, 3, 4, 17, 26}}}};
  WindowOptions over{.input_dims = {{"time", 7}, {"lat", 5}}, .boundary = Boundary::kPad};
  over.boundary_of = {{"lat", Boundary::kWrap}};
  for (const WindowOptions& options : {whole, listed, over}) {
    for (int round = 0; round < 6; ++round) {
      const Windows windows = Windows::create(dims(common), options).value();
      LoaderArray aligned = plain(windows);
      for (std::size_t d = 0; d < 2; ++d)
        aligned.positions.emplace_back(d, random_positions(random, common[d], kShape[d]));
      if (round % 2 == 1) {
        aligned.samples =
            Crops::create(windows, {.size = {{"lon", 9}}, .per_frame = 2, .wrap = {"lon"}, .flip = {"lon"}}).value();
        aligned.positions.emplace_back(2, random_positions(random, common[2], kShape[2]));
      }
      LoaderOptions how;
      how.split.batch_size = 3;
      how.seed = random();
      Loader loader = Loader::create(*device_, {aligned}, how).value();
      std::uint64_t batches = 0;
      while (std::optional<LoaderBatch> batch = loader.next().value()) {
        check(*batch, {aligned}, how.seed);
        if (HasFatalFailure()) return;
        ++batches;
      }
      EXPECT_EQ(batches, loader.batches());
      LoaderArray others = aligned;
      others.positions[0].second[3] = others.positions[0].second[3] == 1 ? 2 : 1;
      EXPECT_EQ(loader.schema().differences(Loader::create(*device_, {others}, how).value().schema()),
                (std::vector<std::string>{"positions"}));
    }
  }
}

TEST_P(LoaderTest, ImpossiblePositionsAreRefused) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  const auto refusal = [&](std::size_t dim, const std::vector<std::int64_t>& positions, bool twice = false) {
    LoaderArray array = plain(windows);
    array.positions = {{dim, positions}};
    if (twice) array.positions.push_back(array.positions[0]);
    auto loader = Loader::create(*device_, {array}, {});
    return loader.ok() ? "" : loader.status().message();
  };
  const std::vector<std::int64_t> fine(kShape[0], 3), other = {1, 2};
  std::vector<std::int64_t> beyond = fine, below = fine;
  beyond[4] = static_cast<std::int64_t>(kShape[0]);
  below[4] = -2;
  EXPECT_EQ(refusal(0, fine), "");
  EXPECT_EQ(refusal(3, fine), "array 'x': positions of dimension 3: the array has 3 dimensions");
  EXPECT_EQ(refusal(0, other), "array 'x': positions of dimension 0: 2 positions, but its windows have 23 elements");
  EXPECT_EQ(refusal(0, beyond), "array 'x': positions of dimension 0: position 23 is out of range for extent 23");
  EXPECT_EQ(refusal(0, below), "array 'x': positions of dimension 0: position -2 is out of range for extent 23");
  EXPECT_EQ(refusal(0, fine, true), "array 'x': positions of dimension 0: given twice");
}

// A state works for any number of arrays and any length of names, although it holds only 64 digests with names of 64
// bytes.
TEST_P(LoaderTest, AStateOfManyArraysResumes) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  const std::vector<std::pair<std::size_t, std::size_t>> rows = {{2, 1},  {61, 1}, {62, 1}, {70, 1},
                                                                 {2, 52}, {2, 53}, {2, 300}};
  for (const auto& [count, letters] : rows) {
    const std::string prefix(letters, 'n');
    std::vector<LoaderArray> arrays;
    for (std::size_t i = 0; i < count; ++i) arrays.push_back({prefix + std::to_string(i), *array_, windows});
    LoaderOptions how;
    const std::string text = Loader::create(*device_, arrays, how).value().state().to_json();
    const auto state = LoaderState::from_json(text);
    ASSERT_TRUE(state.ok()) << count << " arrays: " << state.status().to_string();
    how.state = *state;
    EXPECT_TRUE(Loader::create(*device_, arrays, how).ok());
    std::reverse(arrays.begin(), arrays.end());
    EXPECT_TRUE(Loader::create(*device_, arrays, how).ok()) << "in another order";
    arrays[0].name += "x";
    EXPECT_EQ(Loader::create(*device_, arrays, how).status().code(), Code::kInvalidArgument) << "another name";
    arrays[0].name.pop_back();
    arrays[1].samples =
        Windows::create(dims(kShape), {.input_dims = {{"time", 2}}, .outputs = {{"y", "time", 1}}}).value();
    EXPECT_EQ(Loader::create(*device_, arrays, how).status().code(), Code::kInvalidArgument) << "other samples";
  }
}

// Aligned, padded or flipped: each element gets the scale and offset of its own index in the array.
TEST_P(LoaderTest, ScalesAndOffsetsByIndex) {
  const Windows windows =
      Windows::create(dims(kShape), {.input_dims = {{"time", 4}, {"lat", 5}}, .boundary = Boundary::kPad}).value();
  std::mt19937_64 random(5);
  for (const std::vector<std::size_t>& by : {std::vector<std::size_t>{1}, {0, 2}, {2}}) {
    LoaderArray array{"x", *array_, Crops::create(windows, {.size = {{"lon", 7}}, .flip = {"lon"}}).value()};
    array.read.dtype = "float64";
    array.positions = {{1, random_positions(random, kShape[1], kShape[1])}};
    array.padding = std::vector<std::byte>(8);
    LoaderArray scaled = array;
    scaled.name = "y";
    std::uint64_t entries = 1;
    for (const std::size_t d : by) entries *= kShape[d];
    scaled.scale_by.dims = by;
    for (std::uint64_t i = 0; i < entries; ++i) {
      scaled.scale_by.scale.push_back(static_cast<double>(i + 1));
      scaled.scale_by.offset.push_back(static_cast<double>(random() % 100) + 0.5);
    }
    LoaderOptions how;
    how.split.batch_size = 4;
    how.seed = 3;
    how.read_together = 2;
    Loader loader = Loader::create(*device_, {array, scaled}, how).value();
    while (std::optional<LoaderBatch> batch = loader.next().value()) {
      const auto of = [&](std::size_t tensor) {
        std::vector<double> out(std::size_t{4} * 4 * 5 * 7);
        EXPECT_TRUE(batch->copy_to_host(tensor, 0, reinterpret_cast<std::byte*>(out.data()), out.size() * 8).ok());
        return out;
      };
      const auto plain_values = of(0), values = of(1);
      for (std::size_t i = 0; i < values.size(); ++i) {
        double wanted = 0;  // padding
        if (plain_values[i] > 0) {
          const auto linear = static_cast<std::uint64_t>((plain_values[i] - 1) / 3);
          const Shape at = {linear / (kShape[1] * kShape[2]), linear / kShape[2] % kShape[1], linear % kShape[2]};
          std::uint64_t entry = 0;
          for (const std::size_t d : by) entry = entry * kShape[d] + at[d];
          wanted = plain_values[i] * scaled.scale_by.scale[entry] + scaled.scale_by.offset[entry];
        }
        ASSERT_EQ(values[i], wanted) << i;
      }
      const LoaderTiming timing = batch->timing();
      EXPECT_LE(timing.planned_ns, timing.begun_ns);
      EXPECT_LE(timing.begun_ns, timing.ready_ns);
      EXPECT_LE(timing.ready_ns, timing.given_ns);
      EXPECT_LE(timing.asked_ns, timing.given_ns);
      EXPECT_GT(timing.decoded_bytes, 0u);
    }
    LoaderArray wrong = scaled;
    wrong.scale_by.scale.pop_back();
    EXPECT_FALSE(Loader::create(*device_, {wrong}, how).ok());
    wrong = scaled;
    wrong.scale_by.offset[0] = HUGE_VAL;
    EXPECT_EQ(Loader::create(*device_, {wrong}, how).status().message(),
              "array 'y': scale_by: a scale or an offset is not finite");
    wrong = scaled;
    wrong.read.dtype = "bfloat16";
    wrong.padding = {};
    EXPECT_EQ(Loader::create(*device_, {wrong}, how).status().code(), Code::kUnsupported);
  }
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
        const std::uint64_t inside = 3 * (tensor == 0 ? 5 : 2) * 16;  // elements of a window
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

// On any number of ranks, a resumed epoch gives each remaining sample once.
TEST_P(LoaderTest, AStateResumesTheEpoch) {
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
  how.seed = 0;  // the state contains it
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
  EXPECT_NE(refused.to_string().find("different: "), std::string::npos) << refused.to_string();
}

// The trace shows how long the consumer waits for each batch, as spans of its thread.
TEST_P(LoaderTest, ConsumersWaitsAreTraced) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  LoaderOptions how;
  how.epochs = 1;
  how.split.batch_size = 2;
  Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
  trace::name_thread("consumer");
  ASSERT_TRUE(trace::start().ok());
  std::uint64_t batches = 0;
  while (loader.next().value().has_value()) ++batches;
  const trace::Trace recorded = trace::take().value();
  trace::name_thread("thread");
  EXPECT_EQ(batches, 5u);
  std::uint64_t waits = 0;
  for (const trace::SpanRecord& span : recorded.events) {
    const bool here = recorded.tracks[span.track].name.starts_with("consumer");
    if (here && span.stage == trace::Stage::kWait) ++waits;
  }
  EXPECT_EQ(waits, batches + 1);  // one more for the epoch's end
}

// 23 frames in chunks of four: one read of the whole epoch reads each chunk once; reads of single batches repeat some.
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

// A buffer has two chunks in time, which are eight frames or two batches of four. It is read together even if the
// loader resumes inside it.
TEST_P(LoaderTest, ABufferOfABlockShuffleIsReadTogether) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}}}).value();
  const std::uint64_t chunks = array_->info().chunk_count;
  LoaderOptions how;
  how.order = Order::block_shuffle({.grid = {23, 1, 1}, .group = {4, 1, 1}, .groups_in_buffer = 2}).value();
  EXPECT_EQ(how.order->buffer_positions(), 8u);
  how.split = {.batch_size = 4, .tail = Tail::kPad};
  const std::uint64_t in_time = 6, of_a_group = chunks / in_time;
  {
    Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
    while (loader.next().value()) {
    }
    // The last group has three frames. If it is not in the last buffer, later buffers begin inside a batch.
    EXPECT_LE(loader.stats().reads.chunks, chunks + 2 * of_a_group);
  }
  Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
  ASSERT_TRUE(loader.next().value());
  how.state = loader.state();
  Loader later = Loader::create(*device_, {plain(windows)}, how).value();
  while (later.next().value()) {
  }
  EXPECT_LE(later.stats().reads.chunks, chunks + 2 * of_a_group);
  how.state.reset();
  how.read_together = 1;
  Loader each = Loader::create(*device_, {plain(windows)}, how).value();
  while (each.next().value()) {
  }
  EXPECT_GT(each.stats().reads.chunks, chunks + 2 * of_a_group);
  // If memory does not hold three buffers, a part of one is read together.
  how.read_together = 0;
  how.memory_bytes = 6'144;  // two batches of four samples of 12 x 16 elements
  Loader little = Loader::create(*device_, {plain(windows)}, how).value();
  std::uint64_t batches = 0;
  while (little.next().value()) ++batches;
  EXPECT_EQ(batches, 6u);
}

}  // namespace
}  // namespace headrace
