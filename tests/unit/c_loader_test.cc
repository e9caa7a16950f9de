// The loader of the C API returns the same as the C++ one, with any of its options.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/dev_host/host_memory.h"
#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "device/device.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "unit/c_loader_reads.h"
#include "unit/c_loader_testing.h"

namespace headrace {
namespace {

using namespace testing;

class CLoader : public CLoaderTest {};
INSTANTIATE_TEST_SUITE_P(All, CLoader, ::testing::Values("host", "host-staged", "cuda"), loader_device_name);

struct Seen {
  std::uint64_t epoch = 0, number = 0, valid = 0;
  std::vector<std::uint64_t> samples;
  std::vector<std::string> names, outputs, dtypes, devices;
  std::vector<Shape> shapes;
  std::vector<std::vector<std::byte>> elements;
};

void show(void* user, const c_batch_seen* batch) {
  Seen& seen = static_cast<std::vector<Seen>*>(user)->emplace_back();
  seen.epoch = batch->epoch;
  seen.number = batch->number;
  seen.valid = batch->valid;
  seen.samples.assign(batch->samples, batch->samples + batch->size);
  for (std::size_t i = 0; i < batch->tensor_count; ++i) {
    const hr_tensor& tensor = batch->tensors[i];
    seen.names.emplace_back(tensor.array);
    seen.outputs.emplace_back(tensor.output);
    seen.dtypes.emplace_back(tensor.dtype);
    seen.devices.emplace_back(tensor.device);
    seen.shapes.emplace_back(tensor.shape, tensor.shape + tensor.rank);
    const auto* const first = static_cast<const std::byte*>(batch->elements[i]);
    seen.elements.emplace_back(first, first + tensor.data_bytes);
  }
}

// The program of c_loader_reads.c, written in C++.
std::vector<LoaderArray> climate_arrays(const Array& array) {
  WindowOptions options{.input_dims = {{"time", 2}}, .input_stride = {{"time", 1}}};
  const ByDim<std::uint64_t> sizes = {{"time", 240}, {"lat", 37}, {"lon", 49}};
  const Windows frames = Windows::create(sizes, options).value();
  options.outputs = {{"x", "time", 0}, {"y", "time", 1}};
  std::vector<LoaderArray> arrays = {{"air", array, Windows::create(sizes, options).value()}};
  arrays.push_back(
      {"crops", array, Crops::create(frames, {.size = {{"lat", 8}, {"lon", 12}}, .flip = {"lon"}}).value()});
  arrays.back().read.dtype = "float64";
  arrays.back().read.scale = 0.5;
  arrays.back().read.offset = -100;
  return arrays;
}

TEST_P(CLoader, AProgramInC99ReadsWhatOneInCppReads) {
  const char* const root = std::getenv("HEADRACE_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  const std::string url = std::string(root) + "/tests/data/climate/climate-v2.zarr";
  const Store store = Store::open(*context_, url).value();
  const Array array = Array::open(store, "air_temperature").value();
  const std::vector<LoaderArray> arrays = climate_arrays(array);
  const Windows& windows = std::get<Windows>(arrays[0].samples);
  LoaderOptions how;
  how.order = Order::block_shuffle({.grid = windows.sample_grid(),
                                    .group = windows.samples_per_chunk(array.info().chunk_shape).value(),
                                    .groups_in_buffer = 2})
                  .value();
  how.seed = 42;
  how.epochs = 2;
  how.split = {.rank = 1, .world = 2, .batch_size = 7, .tail = Tail::kPad};
  for (const std::uint64_t stop_after : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{20}}) {
    std::vector<Seen> seen;
    const char* const failure = c_loader_reads(url.c_str(), "air_temperature", GetParam(), stop_after, show, &seen);
    ASSERT_EQ(failure, nullptr) << failure;
    ASSERT_EQ(seen.size(), 2u * 18);  // 239 pairs of years; a rank's batches have 7
    Loader loader = Loader::create(*device_, arrays, how).value();
    std::optional<LoaderBatch> batch;
    std::uint64_t stopped_epoch = 0, stopped_number = 0;  // the second loader counts from where it resumed
    for (std::size_t i = 0; i < seen.size(); ++i) {
      while (!(batch = loader.next().value())) continue;
      if (i == stop_after) stopped_epoch = batch->epoch(), stopped_number = batch->number();
      EXPECT_EQ(seen[i].samples, std::vector<std::uint64_t>(batch->samples().begin(), batch->samples().end()));
      EXPECT_EQ(seen[i].valid, batch->valid());
      EXPECT_EQ(seen[i].epoch, batch->epoch());
      const bool went_on = i >= stop_after && batch->epoch() == stopped_epoch;
      EXPECT_EQ(seen[i].number, batch->number() - (went_on ? stopped_number : 0));
      EXPECT_EQ(seen[i].names, (std::vector<std::string>{"air", "air", "crops"}));
      EXPECT_EQ(seen[i].outputs, (std::vector<std::string>{"x", "y", ""}));
      EXPECT_EQ(seen[i].dtypes, (std::vector<std::string>{"float32", "float32", "float64"}));
      EXPECT_EQ(seen[i].devices[0], device_->name());
      EXPECT_EQ(seen[i].shapes, (std::vector<Shape>{{7, 1, 37, 49}, {7, 1, 37, 49}, {7, 2, 8, 12}}));
      for (std::size_t tensor = 0; tensor < 3; ++tensor) {
        std::vector<std::byte> elements(seen[i].elements[tensor].size());
        ASSERT_TRUE(batch->copy_to_host(tensor, 0, elements.data(), elements.size()).ok());
        ASSERT_TRUE(elements == seen[i].elements[tensor]) << "tensor " << tensor << " of batch " << i;
      }
    }
    EXPECT_LT(seen[17].valid, 7u);  // padded
  }
}

// Uses every field of hr_loader_array.
TEST_P(CLoader, ArraysMayBeStackedAlignedPaddedAndScaled) {
  const Windows windows =
      Windows::create(dims(kShape), {.input_dims = {{"time", 6}}, .boundary = Boundary::kPad}).value();
  const hr_dim_value input[] = {{"time", 6}};
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims = input;
  options.input_dims_count = 1;
  options.boundary = HR_BOUNDARY_PAD;
  const std::vector<hr_dim_value> sizes = c_dims(kShape);
  const auto c_padded = make<hr_windows>([&](hr_windows** out, hr_error** error) {
    return hr_windows_create(sizes.data(), sizes.size(), &options, out, error);
  });
  const std::vector<std::int64_t> positions = {0, 11, 2, -1, 4, 5, 5, 4, 3, 8, 9, 10};
  const std::vector<double> scales = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, offsets(12, 0.5);
  const float padding = -7;
  const std::uint32_t missing = value_at(Shape{3, 4, 5}, kShape);

  std::vector<LoaderArray> arrays = {
      {"x", *array_, windows}, {"aligned", *array_, windows}, {"scaled", *array_, windows}};
  hr_loader_array plain = c_one_, aligned = c_one_, scaled = c_one_;
  for (hr_loader_array* const one : {&plain, &aligned, &scaled}) {
    one->samples = c_padded.get();
    one->dtype = "float32";
    one->stack = "all";
    one->padding = &padding;
    one->padding_bytes = sizeof(padding);
  }
  for (LoaderArray& array : arrays) {
    array.read.dtype = "float32";
    array.stack = "all";
    array.padding.resize(sizeof(padding));
    std::memcpy(array.padding.data(), &padding, sizeof(padding));
  }
  plain.fill_as_nan = 1;
  plain.missing = &missing;
  plain.missing_bytes = sizeof(missing);
  plain.damage_as_nan = 1;
  arrays[0].read.fill_as_nan = arrays[0].read.damage_as_nan = true;
  arrays[0].read.missing.resize(sizeof(missing));
  std::memcpy(arrays[0].read.missing.data(), &missing, sizeof(missing));
  const hr_dim_positions by_lat[] = {{1, positions.data(), positions.size()}};
  aligned.name = "aligned";
  aligned.positions = by_lat;
  aligned.positions_count = 1;
  arrays[1].positions = {{1, positions}};
  const std::size_t lat = 1;
  scaled.name = "scaled";
  scaled.scale = 2;
  scaled.offset = 1;
  scaled.scale_by_dims = &lat;
  scaled.scale_by_dims_count = 1;
  scaled.scale_by_scale = scales.data();
  scaled.scale_by_offset = offsets.data();
  scaled.scale_by_count = scales.size();
  arrays[2].read.scale = 2;
  arrays[2].read.offset = 1;
  arrays[2].scale_by = {{1}, scales, offsets};
  for (const bool channels_last : {false, true}) {
    hr_loader_options how = HR_LOADER_OPTIONS_INIT;
    how.batch_size = 2;
    how.channels_last = channels_last ? 1 : 0;
    LoaderOptions cpp_how;
    cpp_how.split.batch_size = 2;
    cpp_how.epochs = 0;
    cpp_how.channels_last = channels_last;
    Loader loader = Loader::create(*device_, arrays, cpp_how).value();
    const auto c = loader_of({&plain, &aligned, &scaled}, how);
    expect_same(c, loader, 1);
    hr_tensor tensor = HR_TENSOR_INIT;
    ASSERT_EQ(hr_loader_tensor(c.get(), 0, &tensor, nullptr), HR_OK);
    EXPECT_EQ(Shape(tensor.shape, tensor.shape + tensor.rank),
              (channels_last ? Shape{2, 6, 12, 16, 3} : Shape{2, 3, 6, 12, 16}));
  }
}

TEST_P(CLoader, OptionsReachTheLoader) {
  const auto order = make<hr_order>([&](hr_order** out, hr_error** error) {
    return hr_order_full_shuffle(hr_windows_sample_count(windows_.get()), out, error);
  });
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  LoaderOptions cpp_how;
  how.order = order.get();
  cpp_how.order = Order::full_shuffle(hr_windows_sample_count(windows_.get())).value();
  how.seed = cpp_how.seed = 77;
  how.epochs = cpp_how.epochs = 3;
  how.rank = cpp_how.split.rank = 3;
  how.world = cpp_how.split.world = 4;
  how.reader_group = cpp_how.split.reader_group = 2;
  how.batch_size = cpp_how.split.batch_size = 2;
  how.read_together = cpp_how.read_together = 2;
  for (const auto& [tail, native] : {std::pair{HR_TAIL_DROP, Tail::kDrop}, std::pair{HR_TAIL_PAD, Tail::kPad},
                                     std::pair{HR_TAIL_WRAP, Tail::kWrap}}) {
    how.tail = tail;
    cpp_how.split.tail = native;
    Loader loader = Loader::create(*device_, {plain(cpp_windows(2))}, cpp_how).value();
    const auto c = loader_of({&c_one_}, how);
    expect_same(c, loader, 3);
    const Made<hr_batch> behind = next_of(c);  // the last epoch
    EXPECT_EQ(behind.code, HR_OK);
    EXPECT_EQ(behind.get(), nullptr);
    EXPECT_EQ(hr_loader_batches_left(c.get()), 0u);
  }
  const auto c = loader_of({&c_one_}, how);
  hr_batch_times times = HR_BATCH_TIMES_INIT;
  EXPECT_EQ(hr_batch_timing(next_of(c).get(), &times, nullptr), HR_OK);
  EXPECT_EQ(times.batches, 2u);
}

// A split and an order determine the samples that a rank's loader returns, also when it resumes in the middle of an
// epoch.
TEST_P(CLoader, ARanksShareIsKnownInAdvance) {
  const auto order = make<hr_order>([&](hr_order** out, hr_error** error) {
    return hr_order_full_shuffle(hr_windows_sample_count(windows_.get()), out, error);
  });
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.order = order.get();
  how.seed = 5;
  how.rank = 1;
  how.world = 2;
  how.tail = HR_TAIL_PAD;
  how.batch_size = 2;
  hr_split_options options = HR_SPLIT_OPTIONS_INIT;
  options.rank = how.rank;
  options.world = how.world;
  options.tail = how.tail;
  options.batch_size = how.batch_size;
  std::string state;
  for (int run = 0; run < 2; ++run) {
    if (run == 1) how.state = state.c_str();
    const auto loader = loader_of({&c_one_}, how);
    std::uint64_t epoch = 0, consumed = 0;
    ASSERT_EQ(hr_loader_position(loader.get(), &epoch, &consumed, nullptr), HR_OK);
    const auto split = make<hr_split>([&](hr_split** out, hr_error** error) {
      return hr_split_create(&options, hr_order_positions(order.get()), consumed, out, error);
    });
    ASSERT_EQ(hr_split_batches(split.get()), hr_loader_batches_left(loader.get()));
    for (std::uint64_t index = 0; index < hr_split_batches(split.get()); ++index) {
      std::uint64_t positions[2], valid = 0;
      ASSERT_EQ(hr_split_batch(split.get(), index, positions, 2, &valid, nullptr), HR_OK);
      std::vector<std::uint64_t> wanted(2);
      for (int place = 0; place < 2; ++place) {
        ASSERT_EQ(hr_order_epoch(order.get(), how.seed, epoch, positions[place], 1, &wanted[place], nullptr), HR_OK);
      }
      const Made<hr_batch> batch = next_of(loader);
      EXPECT_EQ(samples_of(batch.get()), wanted);
      EXPECT_EQ(hr_batch_valid(batch.get()), valid);
      std::uint64_t told_epoch = 0, told = 0, is_epoch = 0, is = 0;
      ASSERT_EQ(hr_split_after(split.get(), index + 1, epoch, &told_epoch, &told, nullptr), HR_OK);
      ASSERT_EQ(hr_loader_position(loader.get(), &is_epoch, &is, nullptr), HR_OK);
      EXPECT_EQ((LoaderPosition{told_epoch, told}), (LoaderPosition{is_epoch, is}));
      if (index == 0) state = state_of(loader.get());
    }
  }
}

TEST_P(CLoader, ZerosAreTheDefaults) {
  Loader loader = Loader::create(*device_, {plain(cpp_windows(2))}, {}).value();
  const auto by_null = make<hr_loader>([&](hr_loader** out, hr_error** error) {
    const hr_loader_array* const arrays[] = {&c_one_};
    return hr_loader_create(c_device_.get(), arrays, 1, nullptr, out, error);
  });
  expect_same(by_null, loader, 1);
  // It never ends, which is the default in C.
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
    for (std::uint64_t number = 0; number < hr_loader_batches(by_null.get()); ++number) {
      const Made<hr_batch> batch = next_of(by_null);
      ASSERT_NE(batch.get(), nullptr) << batch.message;
      EXPECT_EQ(hr_batch_epoch(batch.get()), epoch);
      EXPECT_EQ(hr_batch_number(batch.get()), number);
    }
    EXPECT_EQ(next_of(by_null).get(), nullptr);
  }
  // A struct of zeros with only its size set equals the macro's.
  const auto zeros_but_size = [](const auto& made) {
    std::vector<std::byte> bytes(sizeof(made)), zeros(sizeof(made));
    std::memcpy(bytes.data(), &made, sizeof(made));
    const std::size_t size = sizeof(made);
    std::memcpy(zeros.data(), &size, sizeof(size));
    return bytes == zeros;
  };
  EXPECT_TRUE(zeros_but_size(hr_window_options HR_WINDOW_OPTIONS_INIT));
  EXPECT_TRUE(zeros_but_size(hr_crop_options HR_CROP_OPTIONS_INIT));
  EXPECT_TRUE(zeros_but_size(hr_loader_array HR_LOADER_ARRAY_INIT));
  EXPECT_TRUE(zeros_but_size(hr_loader_options HR_LOADER_OPTIONS_INIT));
  EXPECT_TRUE(zeros_but_size(hr_tensor HR_TENSOR_INIT));
  EXPECT_TRUE(zeros_but_size(hr_batch_times HR_BATCH_TIMES_INIT));
  EXPECT_TRUE(zeros_but_size(hr_loader_totals HR_LOADER_TOTALS_INIT));
}

TEST_P(CLoader, TensorsAreDescribed) {
  const hr_dim_value input[] = {{"time", 4}};
  const hr_window_output outputs[] = {{"before", "time", 0, 3, 0}, {nullptr, nullptr, 0, 0, 0}};
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims = input;
  options.input_dims_count = 1;
  options.outputs = outputs;
  options.outputs_count = 2;
  const std::vector<hr_dim_value> sizes = c_dims(kShape);
  const auto windows = make<hr_windows>([&](hr_windows** out, hr_error** error) {
    return hr_windows_create(sizes.data(), sizes.size(), &options, out, error);
  });
  c_one_.samples = windows.get();
  c_one_.dtype = "int16";
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.batch_size = 3;
  auto loader = loader_of({&c_one_}, how);
  Made<hr_batch> batch = next_of(loader);
  ASSERT_EQ(hr_loader_tensor_count(loader.get()), 2u);
  hr_tensor of_loader = HR_TENSOR_INIT, of_batch = HR_TENSOR_INIT;
  ASSERT_EQ(hr_loader_tensor(loader.get(), 0, &of_loader, nullptr), HR_OK);
  EXPECT_EQ(of_loader.data, nullptr);
  std::size_t index = 7;
  EXPECT_EQ(hr_loader_tensor_index(loader.get(), "x", "before", &index, nullptr), HR_OK);
  EXPECT_EQ(index, 0u);
  EXPECT_EQ(hr_loader_tensor_index(loader.get(), "x", nullptr, &index, nullptr), HR_OK);
  EXPECT_EQ(index, 1u);
  EXPECT_EQ(hr_loader_tensor_index(loader.get(), "x", "", &index, nullptr), HR_OK);
  const Said unknown =
      said_by([&](hr_error** error) { return hr_loader_tensor_index(loader.get(), "x", "after", &index, error); });
  EXPECT_EQ(unknown.code, HR_NOT_FOUND);
  EXPECT_NE(unknown.message.find("'x' 'after'"), std::string::npos) << unknown.message;
  EXPECT_NE(unknown.message.find("'x' 'before', 'x'"), std::string::npos) << unknown.message;

  // Descriptions live as long as the object they were queried from, whatever else is freed.
  ASSERT_EQ(hr_batch_tensor(batch.get(), 0, &of_batch, nullptr), HR_OK);
  loader.handle.reset();
  EXPECT_STREQ(of_batch.array, "x");
  EXPECT_STREQ(of_batch.output, "before");
  EXPECT_STREQ(of_batch.dtype, "int16");
  EXPECT_EQ(of_batch.device, device_->name());
  EXPECT_EQ(of_batch.item_bytes, 2u);
  EXPECT_EQ(Shape(of_batch.shape, of_batch.shape + of_batch.rank), (Shape{3, 3, 12, 16}));
  EXPECT_EQ(std::vector<std::int64_t>(of_batch.strides_bytes, of_batch.strides_bytes + of_batch.rank),
            (std::vector<std::int64_t>{1152, 384, 32, 2}));
  EXPECT_EQ(of_batch.data_bytes, 3456u);
  if (std::string(GetParam()) == "cuda") return;  // a GPU's memory cannot be read directly
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(hr_batch_tensor(batch.get(), i, &of_batch, nullptr), HR_OK);
    const std::vector<std::byte> elements = bytes_of_tensor(batch.get(), i);
    ASSERT_NE(of_batch.data, nullptr);
    EXPECT_EQ(std::memcmp(of_batch.data, elements.data(), elements.size()), 0) << i;
  }
}

// A loader and everything it was made from may be freed in any order; batches stay valid.
TEST_P(CLoader, FreedInTheWrongOrder) {
  auto made = loader_of({&c_one_});
  const Made<hr_batch> batch = next_of(made);
  c_context_.reset();
  c_array_.reset();
  c_device_.reset();
  windows_.reset();
  const Made<hr_batch> later = next_of(made);
  EXPECT_EQ(later.code, HR_OK) << later.message;
  ASSERT_NE(later.get(), nullptr);
  made.handle.reset();
  EXPECT_EQ(hr_batch_samples(batch.get())[0], 0u);
  EXPECT_EQ(hr_batch_samples(later.get())[0], 1u);
  const std::vector<std::byte> elements = bytes_of_tensor(later.get(), 0);
  const std::vector<std::uint32_t> wanted = expected(plain(cpp_windows(2)), 0, 0, 1, 0);
  ASSERT_EQ(elements.size(), wanted.size() * 4);
  EXPECT_EQ(std::memcmp(elements.data(), wanted.data(), elements.size()), 0);
}

TEST_P(CLoader, AStateResumesInAnyLanguageAndOnAnyNumberOfRanks) {
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.seed = 5;
  how.batch_size = 2;
  const auto first = loader_of({&c_one_}, how);
  for (int i = 0; i < 2; ++i) ASSERT_NE(next_of(first).get(), nullptr);
  std::uint64_t epoch = 9, consumed = 9;
  EXPECT_EQ(hr_loader_position(first.get(), &epoch, &consumed, nullptr), HR_OK);
  EXPECT_EQ(epoch, 0u);
  EXPECT_EQ(consumed, 4u);
  EXPECT_EQ(hr_loader_position(first.get(), nullptr, nullptr, nullptr), HR_OK);
  const std::string text = state_of(first.get());
  const LoaderState state = LoaderState::from_json(text).value();
  EXPECT_EQ(state.seed, 5u);
  EXPECT_EQ(state.at, (LoaderPosition{0, 4}));

  LoaderOptions cpp_how;
  cpp_how.split = {.rank = 1, .world = 3};
  cpp_how.epochs = 2;
  cpp_how.state = state;
  Loader cpp = Loader::create(*device_, {plain(cpp_windows(2))}, cpp_how).value();
  hr_loader_options goes_on = HR_LOADER_OPTIONS_INIT;
  goes_on.rank = 1;
  goes_on.world = 3;
  goes_on.epochs = 2;
  goes_on.state = text.c_str();
  const auto c = loader_of({&c_one_}, goes_on);
  expect_same(c, cpp, 2);

  // The state at the beginning of any epoch.
  std::size_t needed = 0;
  std::string later(4096, '\0');
  ASSERT_EQ(hr_loader_state_of_epoch(first.get(), 11, later.data(), later.size(), &needed, nullptr), HR_OK);
  later.resize(needed - 1);
  EXPECT_EQ(LoaderState::from_json(later).value().at, (LoaderPosition{11, 0}));
  goes_on.epochs = 0;
  goes_on.state = later.c_str();
  const Made<hr_batch> batch = next_of(loader_of({&c_one_}, goes_on));
  ASSERT_NE(batch.get(), nullptr) << batch.message;
  EXPECT_EQ(hr_batch_epoch(batch.get()), 11u);
  EXPECT_EQ(hr_batch_number(batch.get()), 0u);

  // A loader that has begun goes there as well; a state that does not fit leaves it where it is.
  EXPECT_EQ(hr_loader_restart_at(c.get(), "{", nullptr), HR_CORRUPT);
  EXPECT_EQ(hr_loader_restart_at(c.get(), later.c_str(), nullptr), HR_INVALID_ARGUMENT);  // past its last epoch
  ASSERT_EQ(hr_loader_restart_at(c.get(), text.c_str(), nullptr), HR_OK);
  Loader again = Loader::create(*device_, {plain(cpp_windows(2))}, cpp_how).value();
  expect_same(c, again, 2);
}

TEST_P(CLoader, StatsAndTimesAreThoseOfItsReads) {
  const auto c = loader_of({&c_one_});
  Loader cpp = Loader::create(*device_, {plain(cpp_windows(2))}, {}).value();
  expect_same(c, cpp, 1);
  hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
  ASSERT_EQ(hr_loader_stats(c.get(), &totals, nullptr), HR_OK);
  const LoaderStats& stats = cpp.stats();
  EXPECT_EQ(totals.batches, 11u);
  EXPECT_EQ(totals.skipped, 0u);
  EXPECT_GT(totals.wait_seconds, 0);
  EXPECT_EQ(totals.chunks, stats.reads.chunks);
  EXPECT_EQ(totals.missing_chunks, 0u);
  EXPECT_EQ(totals.requests, stats.reads.requests);
  EXPECT_EQ(totals.stored_bytes, stats.reads.stored_bytes);
  EXPECT_EQ(totals.read_bytes, stats.reads.read_bytes);
  EXPECT_EQ(totals.memory_bytes, stats.reads.memory_bytes);
  EXPECT_EQ(totals.bus_bytes, stats.reads.bus_bytes);
  EXPECT_EQ(totals.decoded_bytes, 11u * 2 * 12 * 16 * 4);
  EXPECT_GT(totals.wall_seconds, 0);
  EXPECT_GT(totals.plan_seconds, 0);
  EXPECT_EQ(totals.path, stats.reads.path);
  EXPECT_EQ(totals.memory_bytes, totals.read_bytes);

  const Made<hr_batch> batch = next_of(c);
  hr_batch_times times = HR_BATCH_TIMES_INIT;
  ASSERT_EQ(hr_batch_timing(batch.get(), &times, nullptr), HR_OK);
  EXPECT_GT(times.planned_ns, 0u);
  EXPECT_LE(times.planned_ns, times.begun_ns);
  EXPECT_LE(times.begun_ns, times.ready_ns);
  EXPECT_LE(times.asked_ns, times.given_ns);
  EXPECT_LE(times.ready_ns, times.given_ns);
  EXPECT_GT(times.chunks, 0u);
  EXPECT_EQ(times.kept_chunks, 0u);
  EXPECT_EQ(times.decoded_bytes, 2u * 12 * 16 * 4);
  EXPECT_GT(times.read_bytes, 0u);
  EXPECT_EQ(times.batches, 1u);
}

// Chunks that one read has fetched are kept, encoded or decoded, and are not read again later.
TEST_P(CLoader, ChunksAreKept) {
  if (device_->host_addressable()) return;
  device::staged_decode_model().any_codec = true;
  const support::TempDir directory;
  const Store store = Store::open(*context_, directory.path()).value();
  const FlatArray content{.layout = Layout::kZstd, .chunks = 10, .chunk_elements = 100, .seed = 7};
  ASSERT_TRUE(write_flat_array(*Access::impl(store), "", content).ok());
  support::wait_until_unchanged();
  const Owned<hr_array> array = open_c(directory.path());
  const hr_dim_value sizes[] = {{"x", 1000}}, input[] = {{"x", 30}};
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims = input;
  options.input_dims_count = 1;
  const auto windows = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_create(sizes, 1, &options, out, error); });
  c_one_.array = array.get();
  c_one_.samples = windows.get();
  for (const std::uint32_t form : {HR_CACHE_DECODED, HR_CACHE_ENCODED}) {
    hr_loader_options how = HR_LOADER_OPTIONS_INIT;
    how.cache_bytes = 1 << 20;
    how.cache_form = form;
    how.batch_size = 11;
    const auto loader = loader_of({&c_one_}, how);
    for (int ends = 0; ends < 3;) ends += next_of(loader).get() == nullptr ? 1 : 0;
    hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
    ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
    EXPECT_GT(form == HR_CACHE_DECODED ? totals.kept_chunks : totals.kept_encoded_chunks, 0u) << form;
    EXPECT_EQ(form == HR_CACHE_DECODED ? totals.kept_encoded_chunks : totals.kept_chunks, 0u) << form;
    EXPECT_GT(totals.gpu_chunks, 0u);
    EXPECT_EQ(totals.cpu_chunks, 0u);
    EXPECT_GT(totals.bus_bytes, 0u);
    EXPECT_EQ(totals.direct_bytes + totals.engine_bytes + totals.buffered_bytes + totals.mapped_bytes,
              totals.read_bytes);
    EXPECT_EQ(totals.memory_bytes, 0u);
    EXPECT_GT(totals.kept_bytes, 0u);
    EXPECT_EQ(totals.cache_released, 0u);
    hr_loader_release_cache(loader.get());
    while (next_of(loader).get() != nullptr) continue;
    ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
    EXPECT_EQ(totals.kept_bytes, 0u);
    EXPECT_EQ(totals.cache_released, 1u);
  }
  {
    // No device has this much free memory, so nothing is kept.
    device::limit_device_memory(std::uint64_t{1} << 30);
    hr_loader_options how = HR_LOADER_OPTIONS_INIT;
    how.cache_bytes = 1 << 20;
    how.leave_free_bytes = std::uint64_t{1} << 60;
    how.epochs = 1;
    const auto loader = loader_of({&c_one_}, how);
    while (next_of(loader).get() != nullptr) continue;
    device::limit_device_memory(0);
    hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
    ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
    EXPECT_EQ(totals.kept_bytes, 0u);
  }
  // The caller also chooses the processor that decodes.
  c_one_.placement = HR_PLACEMENT_CPU;
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.epochs = 1;
  const auto loader = loader_of({&c_one_}, how);
  while (next_of(loader).get() != nullptr) continue;
  hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
  ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
  EXPECT_GT(totals.cpu_chunks, 0u);
  EXPECT_EQ(totals.gpu_chunks, 0u);
  device::staged_decode_model().any_codec = false;
}

// With Verify::kWhole, whole chunks are read instead of only a sample's rows.
TEST_P(CLoader, WholeChunksMayBeVerified) {
  const auto windows = c_windows(1);
  c_one_.samples = windows.get();
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.epochs = 1;
  std::uint64_t bytes[2] = {};
  for (const std::uint32_t verify : {HR_VERIFY_AS_READ, HR_VERIFY_WHOLE}) {
    c_one_.verify = verify;
    const auto loader = loader_of({&c_one_}, how);
    while (next_of(loader).get() != nullptr) continue;
    hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
    ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
    bytes[verify] = totals.stored_bytes;
  }
  EXPECT_LT(bytes[HR_VERIFY_AS_READ], bytes[HR_VERIFY_WHOLE]);
}

}  // namespace
}  // namespace headrace
