// A loader's chunk caches: later epochs read nothing, and the memory is given up when others need it.
#include <gtest/gtest.h>
#include <headrace/device.h>
#include <headrace/loader.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/dev_host/host_memory.h"
#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/fault.h"
#include "loader/loader_testing.h"
#include "support/byte_store_testing.h"
#include "support/child.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace testing;

// Two arrays of ten chunks of 400 bytes, in samples of 30 elements.
class LoaderCache : public LoaderTest {
 protected:
  static constexpr std::uint64_t kSample = 30;

  void SetUp() override {
    LoaderTest::SetUp();
    if (IsSkipped()) return;
    device::staged_decode_model().any_codec = true;
    const Windows windows = Windows::create({{"x", 1000}}, {.input_dims = {{"x", kSample}}}).value();
    for (const Layout layout : {Layout::kZstd, Layout::kBlosc}) {
      ASSERT_TRUE(std::filesystem::create_directory(directory_ / layout_name(layout)));
      const Store store = Store::open(*context_, directory_ / layout_name(layout)).value();
      contents_.push_back({.layout = layout, .chunks = 10, .chunk_elements = 100, .seed = 7});
      ASSERT_TRUE(write_flat_array(*Access::impl(store), "", contents_.back()).ok());
      arrays_.push_back({layout_name(layout), Array::open(store).value(), windows, {}, {}});
    }
    support::wait_until_unchanged();
    how_.order = Order::full_shuffle(windows.sample_count()).value();
    how_.split.batch_size = 4;
    how_.epochs = 0;
    how_.cache_bytes = 10'240;  // two arrays, ten chunks, 512 bytes each
  }
  void TearDown() override {
    device::staged_decode_model().any_codec = false;
    device::limit_device_memory(0);
    base::disarm_faults();
  }

  Loader make() { return Loader::create(*device_, arrays_, how_).value(); }
  void check_batch(const LoaderBatch& batch) const {
    for (std::size_t tensor = 0; tensor < contents_.size(); ++tensor) {
      const std::vector<std::uint32_t> got = elements_of(batch, tensor), all = contents_[tensor].expected();
      ASSERT_FALSE(got.empty());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], all[batch.samples()[i / kSample] * kSample + i % kSample]) << "tensor " << tensor;
      }
    }
  }
  // Reads to the end of the epoch and checks that every sample comes once.
  void run_epoch(Loader& loader) const {
    std::uint64_t samples = 0;
    for (;;) {
      auto batch = loader.next();
      ASSERT_TRUE(batch.ok()) << batch.status().to_string();
      if (!batch->has_value()) break;
      samples += (*batch)->valid();
      check_batch(**batch);
    }
    EXPECT_EQ(samples, loader.sample_count() / how_.split.batch_size * how_.split.batch_size);
  }
  // The kept chunks of an epoch, and the bytes that were read over the bus.
  struct Found {
    std::uint64_t kept = 0, read = 0;
  };
  Found found_in_epoch(Loader& loader) const {
    const Stats before = loader.stats().reads;
    run_epoch(loader);
    const Stats& after = loader.stats().reads;
    return {after.kept_chunks - before.kept_chunks, after.bus_bytes - before.bus_bytes};
  }

  const support::TempDir directory_;
  std::vector<FlatArray> contents_;
  std::vector<LoaderArray> arrays_;
  LoaderOptions how_;
};
INSTANTIATE_TEST_SUITE_P(All, LoaderCache, ::testing::Values("host-staged", "cuda"), loader_device_name);

TEST_P(LoaderCache, ChunksAreKeptForTheNextEpoch) {
  Loader loader = make();
  for (int epoch = 0; epoch < 2; ++epoch) run_epoch(loader);  // concurrent reads may decode a chunk twice
  const Found found = found_in_epoch(loader);
  EXPECT_EQ(found.read, 0u);
  EXPECT_GT(found.kept, 0u);
  EXPECT_EQ(loader.stats().kept_bytes, 10'240u);
  EXPECT_FALSE(loader.stats().cache_released);
}

TEST_P(LoaderCache, ARestartKeepsThem) {
  Loader loader = make();
  for (int epoch = 0; epoch < 2; ++epoch) run_epoch(loader);
  ASSERT_TRUE(loader.next().value().has_value());
  ASSERT_TRUE(loader.restart_at({how_.seed, {7, 0}, loader.schema()}).ok());
  EXPECT_EQ(loader.stats().kept_bytes, 10'240u);
  const Found found = found_in_epoch(loader);
  EXPECT_EQ(found.read, 0u);
  EXPECT_GT(found.kept, 0u);
}

// With both forms of the cache.
TEST_P(LoaderCache, ARemoteStoreGetsNoRequestsInLaterEpochs) {
  arrays_.clear();
  contents_.clear();
  const Windows windows = Windows::create({{"x", 1000}}, {.input_dims = {{"x", kSample}}}).value();
  std::vector<std::shared_ptr<RangeStoreInMemory>> stores;
  for (const Layout layout : {Layout::kBlosc, Layout::kShardedZstd, Layout::kRaw}) {
    contents_.push_back({.layout = layout, .chunks = 10, .chunk_elements = 100, .shard_chunks = 5});
    stores.push_back(
        std::make_shared<RangeStoreInMemory>(objects_of(contents_.back()), RangeHabits{.tells_version = true}));
    const Store store = Store::open(*context_, stores.back()).value();
    arrays_.push_back({layout_name(layout), Array::open(store).value(), windows, {}, {}});
  }
  const auto started = [&] {
    std::size_t all = 0;
    for (const auto& store : stores) all += store->started;
    return all;
  };
  const auto settle = [&](Loader& loader) {
    for (int epoch = 0; epoch < 2; ++epoch) run_epoch(loader);
    return started();
  };
  for (const CacheForm form : {CacheForm::kDecoded, CacheForm::kEncoded}) {
    how_.cache_form = form;
    how_.cache_bytes = 15'360;
    Loader loader = make();
    const std::size_t before = settle(loader);
    EXPECT_EQ(found_in_epoch(loader).read, 0u);
    EXPECT_EQ(started(), before);
    EXPECT_EQ(loader.stats().host_kept_bytes, 0u);
  }
  // The host cache works independently of the device cache.
  for (const std::uint64_t cache_bytes : {0, 2048}) {
    how_.cache_bytes = cache_bytes;
    how_.host_cache_bytes = 15'360;
    Loader loader = make();
    const std::size_t before = settle(loader);
    run_epoch(loader);
    loader.release_cache();
    run_epoch(loader);
    run_epoch(loader);
    EXPECT_EQ(started(), before);
    EXPECT_EQ(loader.stats().kept_bytes, 0u);
    EXPECT_GT(loader.stats().host_kept_bytes, 3'000u);
    EXPECT_LE(loader.stats().host_kept_bytes, how_.host_cache_bytes);
  }
}

TEST_P(LoaderCache, ReleasedChunksAreReadAgain) {
  how_.cache_bytes = std::uint64_t{128} << 20;  // a block for each array; far more than reads take
  Loader loader = make();
  run_epoch(loader);
  run_epoch(loader);
  const std::uint64_t before = device::host_memory_counts().device_bytes;
  loader.release_cache();
  run_epoch(loader);  // finishes the reads that were in flight
  const Found found = found_in_epoch(loader);
  EXPECT_EQ(found.kept, 0u);
  EXPECT_GT(found.read, 0u);
  EXPECT_EQ(loader.stats().kept_bytes, 0u);
  EXPECT_TRUE(loader.stats().cache_released);
  if (std::string(GetParam()) == "host-staged") {
    EXPECT_LT(device::host_memory_counts().device_bytes + (std::uint64_t{100} << 20), before);
  }
  loader.release_cache();  // a second call does nothing
  run_epoch(loader);
}

TEST_P(LoaderCache, AnyThreadReleases) {
  for (int round = 0; round < 20; ++round) {
    Loader loader = make();
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
      loader.release_cache();
    });
    for (int epoch = 0; epoch < 2; ++epoch) run_epoch(loader);
    other.join();
    run_epoch(loader);
    EXPECT_TRUE(loader.stats().cache_released);
  }
}

TEST_P(LoaderCache, ReleaseKeepsWhatOthersNeed) {
  if (std::string(GetParam()) == "cuda") return;  // free memory is not known there
  how_.read_ahead = 1;
  {
    Loader without = make();  // the device then has what reads need
    run_epoch(without);
  }
  // Room for one array's chunks, besides what is left free and what reads need.
  constexpr std::uint64_t kModel = std::uint64_t{64} << 20;
  device::limit_device_memory(device::host_memory_counts().device_bytes + 8'000 + kModel + 3 * 4096);
  how_.leave_free_bytes = kModel;
  Loader loader = make();
  run_epoch(loader);
  run_epoch(loader);
  const std::uint64_t kept = loader.stats().kept_bytes;
  EXPECT_GT(kept, 0u);
  EXPECT_LE(kept, 8'000u + 3 * 4096);
  EXPECT_FALSE(loader.stats().cache_released);
  const std::uint64_t free = device::free_device_memory().value();
  EXPECT_GE(free, kModel);
  {
    const Buffer first_step = Buffer::allocate(*device_, free - kModel / 2 - 1).value();
    run_epoch(loader);
    EXPECT_FALSE(loader.stats().cache_released);
  }
  const Buffer model = Buffer::allocate(*device_, free - kModel / 2 + 1).value();
  run_epoch(loader);
  EXPECT_TRUE(loader.stats().cache_released);
  EXPECT_EQ(loader.stats().kept_bytes, 0u);
}

TEST_P(LoaderCache, AReadWithoutMemoryIsRetried) {
  if (!base::kFaultPointsCompiled || std::string(GetParam()) == "cuda") return;
  for (const std::uint64_t nth : {0u, 1u, 5u}) {
    base::arm_fault({.point = "dev_host.assemble", .error = ENOMEM, .nth = nth});
    Loader loader = make();
    run_epoch(loader);
    base::disarm_faults();
    run_epoch(loader);
    EXPECT_TRUE(loader.stats().cache_released) << nth;
  }
  // With no cache to release, the read fails and the next call continues.
  how_.cache_bytes = 0;
  base::arm_fault({.point = "dev_host.assemble", .error = ENOMEM});
  Loader loader = make();
  std::uint64_t failed = 0, given = 0;
  for (;;) {
    const auto batch = loader.next();
    if (batch.ok() && !batch->has_value()) break;
    if (batch.ok()) {
      ++given;
      check_batch(**batch);
    } else {
      ++failed;
      EXPECT_EQ(batch.status().code(), Code::kResourceExhausted) << batch.status().to_string();
    }
  }
  EXPECT_EQ(failed, 1u);
  EXPECT_EQ(given, loader.batches() - 1);
}

// The reads in flight run out of memory before anyone releases the cache or asks for an earlier batch.
TEST_P(LoaderCache, EveryReadShortOfMemoryBesideACacheIsRetried) {
  if (!base::kFaultPointsCompiled || std::string(GetParam()) == "cuda") return;
  const auto fired = [] {
    std::uint64_t all = 0;
    for (const base::FaultCount& count : base::fault_counts()) all += count.fired;
    return all;
  };
  for (const bool released_by_another : {false, true}) {
    how_.read_ahead = 3;
    base::arm_fault({.point = "dev_host.assemble", .error = ENOMEM, .forever = true});
    Loader loader = make();
    // Three reads of two arrays each.
    for (int i = 0; i < 5000 && fired() < 6; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(fired(), 6u);
    base::disarm_faults();
    if (released_by_another) loader.release_cache();
    run_epoch(loader);
    EXPECT_TRUE(loader.stats().cache_released);
  }
}

TEST_P(LoaderCache, TwoThreadsReleaseAtOnce) {
  for (int round = 0; round < 20; ++round) {
    how_.cache_form = round % 2 == 0 ? CacheForm::kDecoded : CacheForm::kEncoded;
    Loader loader = make();
    std::vector<std::thread> others;
    for (int i = 0; i < 2; ++i) {
      others.emplace_back([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
        for (int again = 0; again < 50; ++again) loader.release_cache();
      });
    }
    for (int epoch = 0; epoch < 2; ++epoch) run_epoch(loader);
    for (std::thread& other : others) other.join();
    run_epoch(loader);
    EXPECT_TRUE(loader.stats().cache_released);
    EXPECT_EQ(loader.stats().kept_bytes, 0u);
  }
}

TEST_P(LoaderCache, IsReleasedAfterTheLastEpochAndWhenCancelled) {
  how_.epochs = 1;
  Loader ended = make();
  std::optional<LoaderBatch> held = ended.next().value();
  while (ended.next().value().has_value()) {
  }
  ended.release_cache();
  EXPECT_FALSE(ended.next().value().has_value());
  check_batch(*held);  // not part of the cache
  how_.epochs = 0;
  Loader cancelled = make();
  EXPECT_TRUE(cancelled.next().ok());
  cancelled.cancel();
  cancelled.release_cache();
  Status status;
  while (status.ok()) status = cancelled.next().status();
  EXPECT_EQ(status.code(), Code::kCancelled) << status.to_string();
  cancelled.release_cache();
}

TEST_P(LoaderCache, TwoLoadersOfOneContextKeepTheirOwn) {
  Loader first = make();
  how_.seed = 9;
  Loader second = make();
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::thread other([&] { run_epoch(second); });
    run_epoch(first);
    other.join();
  }
  first.release_cache();
  for (int epoch = 0; epoch < 2; ++epoch) run_epoch(first);
  EXPECT_EQ(found_in_epoch(first).kept, 0u);
  EXPECT_EQ(first.stats().kept_bytes, 0u);
  const Found found = found_in_epoch(second);
  EXPECT_GT(found.kept, 0u);
  EXPECT_EQ(found.read, 0u);
  EXPECT_FALSE(second.stats().cache_released);
  { const Loader gone = std::move(first); }
  EXPECT_EQ(found_in_epoch(second).read, 0u);
}

// The process may fork at any moment: the child's calls return, and the parent keeps its caches.
TEST_P(LoaderCache, AChildReleasesNothing) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  Loader loader = make();
  for (int round = 0; round < 20; ++round) {
    std::optional<LoaderBatch> batch = loader.next().value();
    std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
    EXPECT_EQ(support::in_child([&] {
                loader.release_cache();
                loader.cancel();
                static_cast<void>(loader.wait_for(std::chrono::milliseconds(1)));
                static_cast<void>(loader.state());
                return loader.next().status().code() == Code::kForked ? 0 : 1;
              }),
              0)
        << round;
    if (batch.has_value()) check_batch(*batch);
    if (HasFatalFailure()) return;
  }
  while (loader.next().value().has_value()) {
  }
  run_epoch(loader);
  const Found found = found_in_epoch(loader);
  EXPECT_GT(found.kept, 0u);
  EXPECT_EQ(found.read, 0u);
  EXPECT_FALSE(loader.stats().cache_released);
}

TEST_P(LoaderCache, AChildMayDestroyALoader) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  std::optional<Loader> loader = make();
  for (int epoch = 0; epoch < 2; ++epoch) run_epoch(*loader);
  for (int round = 0; round < 5; ++round) {
    std::optional<LoaderBatch> batch = loader->next().value();
    EXPECT_EQ(support::in_child([&] {
                batch.reset();
                loader.reset();
                return 0;
              }),
              0)
        << round;
    if (batch.has_value()) check_batch(*batch);
    if (HasFatalFailure()) return;
  }
  while (loader->next().value().has_value()) {
  }
  EXPECT_EQ(found_in_epoch(*loader).read, 0u);
}

}  // namespace
}  // namespace headrace
