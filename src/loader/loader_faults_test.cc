// Failures while a Loader reads: damage, lack of memory, and consumers that stop, cancel or fork.
#include <gtest/gtest.h>
#include <headrace/loader.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <thread>

#include "base/access.h"
#include "device/device.h"
#include "loader/loader_testing.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace testing;

class LoaderFaults : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(All, LoaderFaults, ::testing::Values("host", "host-staged", "cuda"), loader_device_name);

TEST_P(LoaderFaults, HoldingAllBatchesIsAnError) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}}}).value();
  LoaderOptions how;
  how.memory_bytes = 3'840;  // five samples of 12 x 16 elements
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

TEST_P(LoaderFaults, ADamagedChunkFailsItsBatchAndNoOther) {
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

TEST_P(LoaderFaults, ADamagedChunkMayBeNaN) {
  const Store store = new_store();
  const Array array = make_array(store, kShape, kChunk);
  ASSERT_TRUE(store.put("c/2/1/1", bytes_of("short")).ok());
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 1}}}).value();
  ReadOptions read;
  read.damage_as_nan = true;
  EXPECT_EQ(Loader::create(*device_, {{"x", array, windows, read, {}}}, {}).status().code(), Code::kInvalidArgument);
  read.dtype = "float32";
  Loader loader = Loader::create(*device_, {{"x", array, windows, read, {}}}, {}).value();
  std::uint64_t nans = 0, frames = 0;
  for (std::optional<LoaderBatch> batch; (batch = loader.next().value()); ++frames) {
    const std::uint64_t time = batch->samples()[0];
    const std::vector<std::uint32_t> words = elements_of(*batch, 0);
    for_each_index({12, 16}, [&](const Shape& at) {
      float got = 0;
      std::memcpy(&got, &words[at[0] * 16 + at[1]], 4);
      const bool damaged = time / 4 == 2 && at[0] / 5 == 1 && at[1] / 8 == 1;
      const Shape place = {time, at[0], at[1]};
      ASSERT_TRUE(damaged ? std::isnan(got) : got == static_cast<float>(value_at(place, kShape)))
          << time << ' ' << at[0] << ' ' << at[1] << ": " << got;
      nans += damaged ? 1 : 0;
    });
  }
  EXPECT_EQ(frames, 23u);
  EXPECT_EQ(nans, 4u * 5 * 8);
  EXPECT_EQ(loader.stats().reads.damaged_chunks, 4u);  // each frame reads it again
  EXPECT_EQ(loader.stats().skipped, 0u);
}

TEST_P(LoaderFaults, MayBeDroppedAtAnyMoment) {
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
  check(*kept, {plain(windows)}, (support::kThreadSanitizer ? 49 : 999));  // it outlives its loader
  EXPECT_LE(support::descriptors_left(descriptors), descriptors);
}

TEST_P(LoaderFaults, MayRestartAtAnyMoment) {
  const Windows windows = Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value();
  LoaderOptions how;
  how.epochs = 9;
  how.order = Order::full_shuffle(windows.sample_count()).value();
  how.seed = 5;
  Loader loader = Loader::create(*device_, {plain(windows)}, how).value();
  std::mt19937_64 random(1);
  std::vector<LoaderBatch> held;  // memory of batches that are still out is not reused
  for (int i = 0; i < (support::kThreadSanitizer ? 50 : 1000); ++i) {
    LoaderState state = loader.state();
    state.seed = random() % 3;
    state.at = {random() % 9, random() % windows.sample_count()};
    ASSERT_TRUE(loader.restart_at(state).ok());
    EXPECT_EQ(loader.state().at, state.at);
    EXPECT_EQ(loader.batches_left(), windows.sample_count() - state.at.consumed);
    const EpochOrder order = how.order->epoch(state.seed, state.at.epoch);
    for (std::uint64_t k = state.at.consumed; k < std::min(state.at.consumed + random() % 5, order.positions()); ++k) {
      std::optional<LoaderBatch> batch = loader.next().value();
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(batch->epoch(), state.at.epoch);
      ASSERT_EQ(batch->samples()[0], order.sample(k));
      check(*batch, {plain(windows)}, state.seed);
      if (held.size() < 3) held.push_back(std::move(*batch));
    }
  }
  for (const LoaderBatch& batch : held) check(batch, {plain(windows)}, 0);

  // States that do not fit change nothing.
  LoaderState state = loader.state();
  ASSERT_TRUE(loader.restart_at({5, {8, 3}, state.schema}).ok());
  for (const LoaderState& wrong : {LoaderState{5, {9, 0}, state.schema}, LoaderState{5, {0, 99}, state.schema},
                                   LoaderState{5, {0, 0}, LoaderSchema()}}) {
    EXPECT_EQ(loader.restart_at(wrong).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(loader.state().at, (LoaderPosition{8, 3}));
  while (loader.next().value()) {
  }
  EXPECT_FALSE(loader.next().value().has_value());  // the last epoch is over
  ASSERT_TRUE(loader.restart_at({5, {8, 3}, state.schema}).ok());
  EXPECT_TRUE(loader.next().value().has_value());

  loader.cancel();
  ASSERT_TRUE(loader.restart_at(state).ok());
  EXPECT_EQ(loader.next().status().code(), Code::kCancelled);
}

TEST_P(LoaderFaults, CancellingEndsIt) {
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

TEST_P(LoaderFaults, AChildProcessIsRefused) {
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

// A consumer releases a batch on a stream that has not finished with it: nothing is read into the batch before that.
TEST(LoaderStreams, ABatchIsKeptUntilItsStreamIsDone) {
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

TEST_P(LoaderFaults, RefusalsNameWhatIsWrong) {
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
