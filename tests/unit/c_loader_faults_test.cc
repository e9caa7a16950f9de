// Failures of a loader of the C API: refusals, damage, batches that are held or released, threads, fork().
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/access.h"
#include "device/device.h"
#include "support/sanitizer.h"
#include "unit/c_loader_testing.h"

namespace headrace {
namespace {

using namespace testing;

class CLoaderFaults : public CLoaderTest {
 protected:
  void expect_refused(const Made<hr_loader>& made, hr_code code, const std::string& names) {
    EXPECT_EQ(made.code, code) << names << ": " << made.message;
    EXPECT_NE(made.message.find(names), std::string::npos) << names << ": " << made.message;
  }
};
INSTANTIATE_TEST_SUITE_P(All, CLoaderFaults, ::testing::Values("host", "host-staged", "cuda"), loader_device_name);

TEST_P(CLoaderFaults, NullArgumentsAreRefused) {
  const auto loader = loader_of({&c_one_});
  const Made<hr_batch> batch = next_of(loader);
  const hr_loader_array* const arrays[] = {&c_one_};
  hr_loader* made = nullptr;
  hr_tensor tensor = HR_TENSOR_INIT;
  hr_batch_times times = HR_BATCH_TIMES_INIT;
  hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
  std::size_t index = 0;
  std::uint64_t number = 0;
  char text[8];
  hr_error** const none = nullptr;
  const hr_code codes[] = {
      hr_loader_create(nullptr, arrays, 1, nullptr, &made, none),
      hr_loader_create(c_device_.get(), nullptr, 1, nullptr, &made, none),
      hr_loader_create(c_device_.get(), arrays, 1, nullptr, nullptr, none),
      hr_loader_next(nullptr, nullptr, none),
      hr_loader_next(loader.get(), nullptr, none),
      hr_loader_position(nullptr, &number, &number, none),
      hr_loader_state(nullptr, text, sizeof(text), &index, none),
      hr_loader_state_of_epoch(nullptr, 0, text, sizeof(text), &index, none),
      hr_loader_tensor(nullptr, 0, &tensor, none),
      hr_loader_tensor(loader.get(), 0, nullptr, none),
      hr_loader_tensor_index(nullptr, "x", "", &index, none),
      hr_loader_tensor_index(loader.get(), nullptr, "", &index, none),
      hr_loader_tensor_index(loader.get(), "x", "", nullptr, none),
      hr_batch_tensor(nullptr, 0, &tensor, none),
      hr_batch_tensor(batch.get(), 0, nullptr, none),
      hr_batch_copy_to_host(nullptr, 0, 0, text, 1, none),
      hr_batch_copy_to_host(batch.get(), 0, 0, nullptr, 1, none),
      hr_batch_release(nullptr, nullptr, 0, none),
      hr_batch_release(batch.get(), nullptr, 1, none),
      hr_batch_timing(nullptr, &times, none),
      hr_batch_timing(batch.get(), nullptr, none),
      hr_loader_restart_at(nullptr, text, none),
      hr_loader_restart_at(loader.get(), nullptr, none),
      hr_loader_stats(nullptr, &totals, none),
      hr_loader_stats(loader.get(), nullptr, none),
  };
  for (std::size_t i = 0; i < std::size(codes); ++i) EXPECT_EQ(codes[i], HR_INVALID_ARGUMENT) << "call " << i;
  auto* got = reinterpret_cast<hr_batch*>(&tensor);
  EXPECT_EQ(hr_loader_next(nullptr, &got, none), HR_INVALID_ARGUMENT);
  EXPECT_EQ(got, nullptr);
  EXPECT_EQ(made, nullptr);
  hr_loader_free(nullptr);
  hr_batch_free(nullptr);
  hr_loader_cancel(nullptr);
  EXPECT_EQ(hr_loader_wait_for(nullptr, 0), 1);
  EXPECT_EQ(hr_loader_sample_count(nullptr), 0u);
  EXPECT_EQ(hr_loader_batches(nullptr), 0u);
  EXPECT_EQ(hr_loader_batches_left(nullptr), 0u);
  EXPECT_EQ(hr_loader_tensor_count(nullptr), 0u);
  EXPECT_EQ(hr_batch_samples(nullptr), nullptr);
  EXPECT_EQ(hr_batch_size(nullptr), 0u);
  EXPECT_EQ(hr_batch_valid(nullptr), 0u);
  EXPECT_EQ(hr_batch_epoch(nullptr), 0u);
  EXPECT_EQ(hr_batch_number(nullptr), 0u);
}

TEST_P(CLoaderFaults, ArraysThatAreRefused) {
  const auto fewer = c_windows(3), smaller = c_windows(2, 0, {23, 12, 15});
  const float one = 1;
  const std::size_t lat = 1;
  const double scale = 1;
  const std::int64_t positions[] = {0, 99};
  const hr_dim_positions by_lat[] = {{1, positions, 2}}, nowhere[] = {{1, nullptr, 2}};
  struct Row {
    hr_code code;
    const char* names;
    hr_loader_array array;
  };
  std::vector<Row> rows;
  const auto add = [&](const char* names, hr_code code = HR_INVALID_ARGUMENT) -> hr_loader_array& {
    rows.push_back({code, names, c_one_});
    rows.back().array.name = "y";
    return rows.back().array;
  };
  add("'arrays[1]->name' is null").name = nullptr;
  add("'arrays[1]->array' is null").array = nullptr;
  add("'arrays[1]->samples' is null").samples = nullptr;
  add("two arrays have the name 'x'").name = "x";
  add("'y' has 7 samples").samples = fewer.get();
  add("(23, 12, 15)").samples = smaller.get();
  add("abacus").dtype = "abacus";
  add("damage_as_nan").damage_as_nan = 1;
  add("fill_as_nan").fill_as_nan = 1;
  add("arrays[1]->placement is 3, which is not one of HR_PLACEMENT_").placement = 3;
  add("arrays[1]->verify is 2, which is not one of HR_VERIFY_").verify = 2;
  add("scale").scale = std::numeric_limits<double>::infinity();
  hr_loader_array& padded = add("padding has 3 bytes");
  padded.padding = &one;
  padded.padding_bytes = 3;
  add("arrays[1]->padding_bytes is 0").padding = &one;
  add("'arrays[1]->padding' is null").padding_bytes = 4;
  add("arrays[1]->missing_bytes is 0").missing = &one;
  add("'arrays[1]->positions' is null").positions_count = 1;
  hr_loader_array& aligned = add("positions of dimension 1: 2 positions, but its windows have 12");
  aligned.positions = by_lat;
  aligned.positions_count = 1;
  hr_loader_array& unaligned = add("'arrays[1]->positions->positions' is null");
  unaligned.positions = nowhere;
  unaligned.positions_count = 1;
  add("'arrays[1]->scale_by_dims' is null").scale_by_dims_count = 1;
  hr_loader_array& scaled = add("scale_by: 1 scales and 1 offsets");
  scaled.scale_by_dims = &lat;
  scaled.scale_by_dims_count = 1;
  scaled.scale_by_scale = scaled.scale_by_offset = &scale;
  scaled.scale_by_count = 1;
  hr_loader_array& unscaled = add("'arrays[1]->scale_by_scale' is null");
  unscaled.scale_by_count = 1;
  unscaled.scale_by_offset = &scale;
  hr_loader_array& no_offset = add("'arrays[1]->scale_by_offset' is null");
  no_offset.scale_by_count = 1;
  no_offset.scale_by_scale = &scale;
  hr_loader_array& no_dims = add("scale_by_dims is empty");
  no_dims.scale_by_count = 1;
  no_dims.scale_by_scale = no_dims.scale_by_offset = &scale;
  add("size field is 0").size = 0;
  add("size field is 24").size = 24;
  for (const Row& row : rows) expect_refused(loader_of({&c_one_, &row.array}), row.code, row.names);
  expect_refused(loader_of({}), HR_INVALID_ARGUMENT, "a loader needs an array");
  expect_refused(loader_of({&c_one_, nullptr}), HR_INVALID_ARGUMENT, "'arrays[1]' is null");
}

TEST_P(CLoaderFaults, OptionsThatAreRefused) {
  const auto other_order =
      make<hr_order>([](hr_order** out, hr_error** error) { return hr_order_full_shuffle(12, out, error); });
  struct Row {
    hr_code code;
    const char* names;
    hr_loader_options options;
  };
  std::vector<Row> rows;
  const auto add = [&](const char* names, hr_code code = HR_INVALID_ARGUMENT) -> hr_loader_options& {
    rows.push_back({code, names, HR_LOADER_OPTIONS_INIT});
    return rows.back().options;
  };
  add("the order has 12 samples, but the arrays have 11").order = other_order.get();
  add("rank").rank = 1;
  hr_loader_options& last = add("rank");
  last.rank = 4;
  last.world = 4;
  hr_loader_options& groups = add("reader_group");
  groups.world = 4;
  groups.reader_group = 3;
  add("batch").batch_size = 12;  // larger than the 11 samples
  add("bytes").batch_size = std::uint64_t{1} << 61;
  add("options->tail is 3, which is not one of HR_TAIL_").tail = 3;
  add("options->cache_form is 2, which is not one of HR_CACHE_").cache_form = 2;
  add("options->on_damage is 2, which is not one of HR_DAMAGE_").on_damage = 2;
  add("options->reserved is not zero").reserved = 1;
  add("memory_bytes = 2000", HR_RESOURCE_EXHAUSTED).memory_bytes = 2000;
  add("loader state", HR_CORRUPT).state = "{}";
  add("", HR_CORRUPT).state = "";
  add("version 2", HR_UNSUPPORTED).state = R"({"consumed":0,"epoch":0,"schema":{},"seed":0,"version":2})";
  add("size field is 0").size = 0;
  add("size field is 12").size = 12;
  add("size field is 100000").size = 100'000;
  for (const Row& row : rows) expect_refused(loader_of({&c_one_}, row.options), row.code, row.names);

  // A loader of other samples, one of another order, and one that ends before this state.
  const std::string state = state_of(loader_of({&c_one_}).get());
  hr_loader_options goes_on = HR_LOADER_OPTIONS_INIT;
  goes_on.state = state.c_str();
  EXPECT_EQ(loader_of({&c_one_}, goes_on).code, HR_OK);
  const auto others = c_windows(3);
  hr_loader_array other = c_one_;
  other.samples = others.get();
  expect_refused(loader_of({&other}, goes_on), HR_INVALID_ARGUMENT, "'windows'");
  const auto shuffled =
      make<hr_order>([](hr_order** out, hr_error** error) { return hr_order_full_shuffle(11, out, error); });
  goes_on.order = shuffled.get();
  expect_refused(loader_of({&c_one_}, goes_on), HR_INVALID_ARGUMENT, "different: 'order'");
  std::string later(4096, '\0');
  ASSERT_EQ(hr_loader_state_of_epoch(loader_of({&c_one_}).get(), 2, later.data(), later.size(), nullptr, nullptr),
            HR_OK);
  goes_on.order = nullptr;
  goes_on.state = later.c_str();
  goes_on.epochs = 2;
  expect_refused(loader_of({&c_one_}, goes_on), HR_INVALID_ARGUMENT, "past epoch 2");
}

// A caller with a later header: set fields that this library does not know are refused, and unknown output fields are
// set to zero.
TEST_P(CLoaderFaults, LaterStructs) {
  struct LaterOptions {
    hr_loader_options known = HR_LOADER_OPTIONS_INIT;
    std::uint64_t later = 0;
  } options;
  options.known.size = sizeof(options);
  const auto loader = loader_of({&c_one_}, options.known);
  EXPECT_EQ(loader.code, HR_OK) << loader.message;
  options.later = 1;
  expect_refused(loader_of({&c_one_}, options.known), HR_INVALID_ARGUMENT, "does not know");

  struct LaterTensor {
    hr_tensor known = HR_TENSOR_INIT;
    std::uint64_t later = 5;
  } tensor;
  tensor.known.size = sizeof(tensor);
  EXPECT_EQ(hr_loader_tensor(loader.get(), 0, &tensor.known, nullptr), HR_OK);
  EXPECT_EQ(tensor.known.size, sizeof(tensor));
  EXPECT_STREQ(tensor.known.array, "x");
  EXPECT_EQ(tensor.later, 0u);
  // Nothing is written beyond the given size.
  tensor.known.size = sizeof(tensor.known);
  tensor.later = 5;
  EXPECT_EQ(hr_loader_tensor(loader.get(), 0, &tensor.known, nullptr), HR_OK);
  EXPECT_EQ(tensor.later, 5u);

  hr_tensor small = HR_TENSOR_INIT;
  hr_batch_times times = HR_BATCH_TIMES_INIT;
  hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
  small.size = 0;
  times.size = sizeof(times) - 1;
  totals.size = 100'000;
  const Made<hr_batch> batch = next_of(loader);
  EXPECT_EQ(hr_loader_tensor(loader.get(), 0, &small, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_batch_tensor(batch.get(), 0, &small, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(small.array, nullptr);
  EXPECT_EQ(hr_batch_timing(batch.get(), &times, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(times.batches, 0u);
  EXPECT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(totals.batches, 0u);
}

TEST_P(CLoaderFaults, TooSmallStateBuffersAreRefused) {
  const auto loader = loader_of({&c_one_});
  const std::string state = state_of(loader.get());
  std::string text(state.size(), 'x');
  std::size_t needed = 0;
  const Said said = said_by(
      [&](hr_error** error) { return hr_loader_state(loader.get(), text.data(), text.size(), &needed, error); });
  EXPECT_EQ(said.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(said.message.find(std::to_string(state.size() + 1)), std::string::npos) << said.message;
  EXPECT_EQ(needed, state.size() + 1);
  EXPECT_EQ(text, std::string(state.size(), 'x'));
  text.resize(needed);
  EXPECT_EQ(hr_loader_state(loader.get(), text.data(), text.size(), nullptr, nullptr), HR_OK);
  EXPECT_EQ(text.c_str(), state);
}

TEST_P(CLoaderFaults, HoldingAllBatchesIsAnError) {
  const auto windows = c_windows(1);
  c_one_.samples = windows.get();
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.memory_bytes = 3'840;  // five samples of 12 x 16 elements
  const auto loader = loader_of({&c_one_}, how);
  std::vector<Made<hr_batch>> held;
  for (int i = 0; i < 5; ++i) {
    held.push_back(next_of(loader));
    ASSERT_NE(held.back().get(), nullptr) << held.back().message;
  }
  const Made<hr_batch> refused = next_of(loader);
  EXPECT_EQ(refused.code, HR_RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.message.find("memory_bytes"), std::string::npos) << refused.message;
  // A released batch's memory is reused while its handle still exists; so is a freed one's.
  EXPECT_EQ(hr_batch_release(held[2].get(), nullptr, 0, nullptr), HR_OK);
  Made<hr_batch> next = next_of(loader);
  ASSERT_NE(next.get(), nullptr) << next.message;
  EXPECT_EQ(hr_batch_number(next.get()), 5u);
  EXPECT_EQ(next_of(loader).code, HR_RESOURCE_EXHAUSTED);
  held.erase(held.begin());
  EXPECT_EQ(next_of(loader).code, HR_OK);
}

TEST_P(CLoaderFaults, ReleasedBatchesAndOutOfRangeCopiesAreRefused) {
  const auto loader = loader_of({&c_one_});
  const Made<hr_batch> batch = next_of(loader);
  std::uint32_t element = 0;
  hr_tensor tensor = HR_TENSOR_INIT;
  EXPECT_EQ(hr_batch_copy_to_host(batch.get(), 0, 4, &element, 4, nullptr), HR_OK);
  EXPECT_EQ(element, value_at(Shape{0, 0, 1}, kShape));
  const std::uint64_t bytes = std::uint64_t{2} * 12 * 16 * 4;
  for (const auto& [index, offset, count] :
       {std::tuple{std::size_t{1}, std::size_t{0}, std::size_t{4}}, {0, bytes, 1}, {0, 1, ~std::size_t{0}}}) {
    EXPECT_EQ(hr_batch_copy_to_host(batch.get(), index, offset, &element, count, nullptr), HR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(hr_batch_tensor(batch.get(), 1, &tensor, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_loader_tensor(loader.get(), 1, &tensor, nullptr), HR_INVALID_ARGUMENT);

  EXPECT_EQ(hr_batch_release(batch.get(), nullptr, 0, nullptr), HR_OK);
  EXPECT_EQ(hr_batch_release(batch.get(), nullptr, 0, nullptr), HR_OK);  // no effect
  const Said said = said_by([&](hr_error** error) { return hr_batch_tensor(batch.get(), 0, &tensor, error); });
  EXPECT_EQ(said.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(said.message.find("was released"), std::string::npos) << said.message;
  EXPECT_EQ(tensor.data, nullptr);
  EXPECT_EQ(hr_batch_copy_to_host(batch.get(), 0, 0, &element, 4, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_batch_size(batch.get()), 1u);
  EXPECT_EQ(hr_batch_samples(batch.get())[0], 0u);
}

TEST_P(CLoaderFaults, ADamagedChunkIsReportedOrSkipped) {
  const Store store = new_store();
  const Array array = make_array(store, kShape, kChunk);
  ASSERT_TRUE(store.put("c/2/1/1", bytes_of("short")).ok());  // frames 8 to 11
  const Owned<hr_array> damaged = open_c(store.url());
  const auto windows = c_windows(1);
  c_one_.array = damaged.get();
  c_one_.samples = windows.get();
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.batch_size = 2;
  for (const std::uint32_t on_damage : {HR_DAMAGE_FAIL, HR_DAMAGE_SKIP}) {
    how.on_damage = on_damage;
    const auto loader = loader_of({&c_one_}, how);
    int failures = 0, batches = 0;
    for (;;) {
      const Made<hr_batch> batch = next_of(loader);
      if (batch.code != HR_OK) {
        EXPECT_EQ(batch.code, HR_SHORT);
        EXPECT_NE(batch.message.find("c/2/1/1"), std::string::npos) << batch.message;
        ++failures;
      } else if (batch.get() == nullptr) {
        break;
      } else {
        ++batches;
      }
    }
    EXPECT_EQ(failures, on_damage == HR_DAMAGE_FAIL ? 2 : 0);
    EXPECT_EQ(batches, 9);
    hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
    ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
    EXPECT_EQ(totals.skipped, 2u);
  }
  c_one_.dtype = "float32";
  c_one_.damage_as_nan = 1;
  const auto loader = loader_of({&c_one_}, how);
  while (next_of(loader).get() != nullptr) continue;
  hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
  ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
  EXPECT_EQ(totals.batches, 11u);
  EXPECT_GT(totals.damaged_chunks, 0u);
}

// One thread reads, others release its batches, and one cancels the loader.
TEST_P(CLoaderFaults, BatchesAndCancellationWorkFromAnyThread) {
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.memory_bytes = std::uint64_t{8} * 1536;
  const auto loader = loader_of({&c_one_}, how);
  std::mutex mutex;
  std::vector<Made<hr_batch>> batches;
  std::atomic<bool> over = false;
  std::atomic<std::uint64_t> checked = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (;;) {
        const bool last = over;
        Made<hr_batch> batch;
        {
          const std::lock_guard lock(mutex);
          if (!batches.empty()) {
            batch = std::move(batches.back());
            batches.pop_back();
          }
        }
        if (batch.get() == nullptr) {
          if (last) return;
          std::this_thread::yield();
          continue;
        }
        std::uint32_t element = 0;
        const Shape first = {hr_batch_samples(batch.get())[0] * 2, 0, 0};
        wrong += hr_batch_copy_to_host(batch.get(), 0, 0, &element, 4, nullptr) != HR_OK ||
                 element != value_at(first, kShape);
        if (t == 0) wrong += hr_batch_release(batch.get(), nullptr, 0, nullptr) != HR_OK;
        ++checked;
      }
    });
  }
  std::thread canceller([&] {
    while (checked < 200) std::this_thread::yield();
    hr_loader_cancel(loader.get());
  });
  Made<hr_batch> end;
  while (end.code == HR_OK || end.code == HR_RESOURCE_EXHAUSTED) {
    end = next_of(loader);
    if (end.code == HR_RESOURCE_EXHAUSTED) std::this_thread::yield();  // the other threads hold all batches
    if (end.get() == nullptr) continue;
    const std::lock_guard lock(mutex);
    batches.push_back(std::move(end));
    end = {};
  }
  canceller.join();
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(end.code, HR_CANCELLED) << end.message;
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(checked, 200u);
}

// A store whose reads answer when the test lets them.
struct HeldStore {
  std::mutex mutex;
  std::vector<hr_range_read*> waiting;
  bool answers = false;
  std::size_t waiting_count() {
    const std::lock_guard lock(mutex);
    return waiting.size();
  }
  static void answer(hr_range_read* read) {
    const std::size_t bytes = std::min<std::size_t>(4, hr_range_bytes(read));  // of a chunk
    std::memset(hr_range_out(read), 1, bytes);
    hr_range_done(read, HR_OK, nullptr, bytes, 4, nullptr);
  }
  void release() {
    std::vector<hr_range_read*> now;
    {
      const std::lock_guard lock(mutex);
      answers = true;
      now.swap(waiting);
    }
    for (hr_range_read* const read : now) answer(read);
  }
};

hr_code held_start(void* user, hr_range_read* const* reads, size_t count) {
  auto& store = *static_cast<HeldStore*>(user);
  static const std::string kDocument =
      R"({"zarr_format": 2, "shape": [16], "chunks": [1], "dtype": "<u4", "compressor": null, "fill_value": 0,)"
      R"( "filters": null, "order": "C"})";
  for (size_t i = 0; i < count; ++i) {
    const std::string key = hr_range_key(reads[i]);
    if (key == ".zarray") {
      std::memcpy(hr_range_out(reads[i]), kDocument.data(), std::min(kDocument.size(), hr_range_bytes(reads[i])));
      hr_range_done(reads[i], HR_OK, nullptr, std::min(kDocument.size(), hr_range_bytes(reads[i])), kDocument.size(),
                    nullptr);
    } else if (key[0] == '.' || key.find("json") != std::string::npos) {
      hr_range_done(reads[i], HR_NOT_FOUND, nullptr, 0, HR_UNKNOWN_BYTES, nullptr);
    } else {
      bool now = false;
      {
        const std::lock_guard lock(store.mutex);
        now = store.answers;
        if (!now) store.waiting.push_back(reads[i]);
      }
      if (now) HeldStore::answer(reads[i]);
    }
  }
  return HR_OK;
}

// Waiting has a timeout, and read_ahead batches are requested before the first call of next.
TEST_P(CLoaderFaults, WaitsForBatchesReadAhead) {
  HeldStore held;
  hr_store_functions functions = HR_STORE_FUNCTIONS_INIT;
  functions.user = &held;
  functions.url = "held://";
  functions.start = held_start;
  const auto store = make<hr_store>([&](hr_store** out, hr_error** error) {
    return hr_store_open_functions(c_context_.get(), &functions, out, error);
  });
  const auto array =
      make<hr_array>([&](hr_array** out, hr_error** error) { return hr_array_open(store.get(), nullptr, out, error); });
  ASSERT_EQ(array.code, HR_OK) << array.message;
  const hr_dim_value sizes[] = {{"x", 16}}, input[] = {{"x", 1}};
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims = input;
  options.input_dims_count = 1;
  const auto windows = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_create(sizes, 1, &options, out, error); });
  c_one_.array = array.get();
  c_one_.samples = windows.get();
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.read_ahead = 4;
  const auto loader = loader_of({&c_one_}, how);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (held.waiting_count() < 4 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(held.waiting_count(), 4u);
  EXPECT_EQ(hr_loader_wait_for(loader.get(), 0), 0);
  EXPECT_EQ(hr_loader_wait_for(loader.get(), 10'000'000), 0);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    held.release();
  });
  EXPECT_EQ(hr_loader_wait_for(loader.get(), UINT64_MAX), 1);
  other.join();
  const Made<hr_batch> batch = next_of(loader);
  ASSERT_NE(batch.get(), nullptr) << batch.message;
  std::uint32_t element = 0;
  EXPECT_EQ(hr_batch_copy_to_host(batch.get(), 0, 0, &element, 4, nullptr), HR_OK);
  EXPECT_EQ(element, 0x01010101u);
  hr_loader_totals totals = HR_LOADER_TOTALS_INIT;
  ASSERT_EQ(hr_loader_stats(loader.get(), &totals, nullptr), HR_OK);
  EXPECT_EQ(totals.store_bytes, 4u);
}

TEST_P(CLoaderFaults, AChildProcessIsRefused) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  auto loader = loader_of({&c_one_});
  Made<hr_batch> batch = next_of(loader);
  const pid_t child = ::fork();
  if (child == 0) {
    hr_loader_release_cache(loader.get());
    hr_batch* next = nullptr;
    const bool refused = hr_loader_next(loader.get(), &next, nullptr) == HR_FORKED && next == nullptr &&
                         hr_batch_release(batch.get(), nullptr, 0, nullptr) == HR_FORKED;
    batch.handle.reset();
    loader.handle.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::uint32_t element = 0;
  EXPECT_EQ(hr_batch_copy_to_host(batch.get(), 0, 0, &element, 4, nullptr), HR_OK);
  EXPECT_EQ(next_of(loader).code, HR_OK);
}

// A released batch's memory is not reused before the given stream reaches that point. On a device without streams the
// call is refused, and the memory is still reused.
TEST_P(CLoaderFaults, BatchesAreReleasedByStream) {
  device::Device& impl = *Access::impl(*device_);
  const auto windows = c_windows(1);
  c_one_.samples = windows.get();
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.read_ahead = 1;
  how.memory_bytes = std::uint64_t{2} * 768;
  const auto loader = loader_of({&c_one_}, how);
  if (device_->host_addressable()) {
    const Made<hr_batch> batch = next_of(loader);
    int dummy = 0;
    void* const stream = &dummy;
    EXPECT_EQ(hr_batch_release(batch.get(), &stream, 1, nullptr), HR_INVALID_ARGUMENT);
    const Made<hr_batch> second = next_of(loader), third = next_of(loader);  // uses all of the memory
    EXPECT_NE(second.get(), nullptr) << second.message;
    EXPECT_NE(third.get(), nullptr) << third.message;
    return;
  }
  if (std::string(GetParam()) != "host-staged") return;  // a GPU's memory cannot be inspected from its streams here
  const auto stream = impl.create_stream().value();
  void* const native = impl.native_handle(*stream);
  struct Late {
    std::vector<std::byte> was;
    const std::byte* memory = nullptr;
    bool same = false;
  };
  std::vector<std::unique_ptr<Late>> looks;
  for (int i = 0; i < 8; ++i) {
    const Made<hr_batch> batch = next_of(loader);
    ASSERT_NE(batch.get(), nullptr) << batch.message;
    hr_tensor tensor = HR_TENSOR_INIT;
    ASSERT_EQ(hr_batch_tensor(batch.get(), 0, &tensor, nullptr), HR_OK);
    auto look = std::make_unique<Late>();
    look->memory = static_cast<const std::byte*>(tensor.data);
    look->was.assign(look->memory, look->memory + tensor.data_bytes);
    ASSERT_TRUE(impl.call_host(
                        native,
                        [](void* data) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(20));
                          auto& late = *static_cast<Late*>(data);
                          late.same = std::memcmp(late.was.data(), late.memory, late.was.size()) == 0;
                        },
                        look.get())
                    .ok());
    looks.push_back(std::move(look));
    EXPECT_EQ(hr_batch_release(batch.get(), &native, 1, nullptr), HR_OK);
  }
  const auto event = impl.create_event().value();
  ASSERT_TRUE(impl.record(*event, *stream).ok());
  ASSERT_TRUE(impl.synchronize(*event).ok());
  for (const auto& look : looks) EXPECT_TRUE(look->same);
}

}  // namespace
}  // namespace headrace
