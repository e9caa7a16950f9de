// Property: the allocations of a loader per batch do not grow with the batch's samples.
#include <gtest/gtest.h>
#include <headrace/crops.h>
#include <headrace/loader.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <vector>

#include "base/access.h"
#include "loader/loader_testing.h"
#include "support/alloc_counter.h"
#include "support/raw_array.h"

namespace headrace {
namespace {

using namespace testing;

constexpr std::uint64_t kFew = 4, kMany = 64;
// Per array read, whatever it reads: plan, waves, lanes and their lists; 60 to 70.
constexpr double kRead = 90;
// For lists of a read that double as they grow, such as those of chunks in a shard: four more doublings for kMany.
constexpr double kGrowth = 12;
// For the consumer: the batch it receives.
constexpr double kConsumer = 1.5;

const Shape kLong = {520, 4, 8}, kLongChunk = {4, 4, 4};

class LoaderAllocation : public LoaderTest {
 protected:
  void SetUp() override {
    if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
    LoaderTest::SetUp();
    if (IsSkipped()) return;
    long_ = std::make_unique<Array>(make_array(new_store(), kLong, kLongChunk));
  }

  struct Figures {
    double all = 1e9, consumer = 1e9;
  };

  // Allocations per batch, on all threads and on the consumer's, once reusable memory exists. The fewest of several
  // rounds: threads that wake at different times allocate slightly more or less.
  Figures per_batch(const std::vector<LoaderArray>& arrays, std::uint64_t batch_size) {
    constexpr int kBatches = 32;
    LoaderOptions how;
    how.order =
        Order::full_shuffle(std::visit([](const auto& s) { return s.sample_count(); }, arrays[0].samples)).value();
    how.epochs = 0;
    how.split.batch_size = batch_size;
    Loader loader = Loader::create(*device_, arrays, how).value();
    Figures fewest;
    for (int round = 0; round < 8; ++round) {
      const support::AllocScope all, consumer(support::AllocScope::Of::kThread);
      for (int batches = 0; batches < kBatches;) {
        const auto batch = loader.next();
        EXPECT_TRUE(batch.ok()) << batch.status().to_string();
        if (!batch.ok()) return fewest;
        batches += batch->has_value() ? 1 : 0;
      }
      if (round < 2) continue;
      fewest.all = std::min(fewest.all, static_cast<double>(all.allocations()) / kBatches);
      fewest.consumer = std::min(fewest.consumer, static_cast<double>(consumer.allocations()) / kBatches);
    }
    return fewest;
  }

  void expect_none_per_sample(const std::vector<LoaderArray>& arrays) {
    const Figures few = per_batch(arrays, kFew), many = per_batch(arrays, kMany);
    RecordProperty("allocations_few", std::to_string(few.all));
    RecordProperty("allocations_many", std::to_string(many.all));
    EXPECT_LE(many.all - few.all, kGrowth)
        << few.all << " for " << kFew << " samples, " << many.all << " for " << kMany;
    EXPECT_LE(few.all, kRead * static_cast<double>(arrays.size()));
    EXPECT_LE(few.consumer, kConsumer);
    EXPECT_LE(many.consumer, kConsumer);
  }

  LoaderArray of_long(const std::variant<Windows, Crops>& samples) const {
    return {"x", *long_, samples, {}, padding_bytes()};
  }

  std::unique_ptr<Array> long_;
};
INSTANTIATE_TEST_SUITE_P(All, LoaderAllocation, ::testing::Values("host", "host-staged"), loader_device_name);

TEST_P(LoaderAllocation, Windows) {
  expect_none_per_sample({of_long(Windows::create(dims(kLong), {.input_dims = {{"time", 2}}}).value())});
}

TEST_P(LoaderAllocation, WindowsThatWrapAndArePadded) {
  expect_none_per_sample({of_long(Windows::create(dims(kLong), {.input_dims = {{"time", 3}, {"lat", 3}, {"lon", 5}},
                                                                .boundary = Boundary::kPad,
                                                                .boundary_of = {{"lon", Boundary::kWrap}}})
                                      .value())});
}

TEST_P(LoaderAllocation, CropsThatAreFlipped) {
  const headrace::Windows frames = Windows::create(dims(kLong), {.input_dims = {{"time", 2}}}).value();
  expect_none_per_sample({of_long(
      Crops::create(frames, {.size = {{"lat", 3}, {"lon", 5}}, .per_frame = 2, .wrap = {"lon"}, .flip = {"lat"}})
          .value())});
}

TEST_P(LoaderAllocation, ArraysThatAreAlignedAndScaled) {
  const headrace::Windows windows = Windows::create(dims(kLong), {.input_dims = {{"time", 2}}}).value();
  LoaderArray aligned = of_long(windows);
  std::vector<std::int64_t> backwards;
  for (std::uint64_t i = 0; i < kLong[0]; ++i) {
    backwards.push_back(i % 7 == 3 ? -1 : static_cast<std::int64_t>(kLong[0] - 1 - i));
  }
  aligned.positions = {{0, backwards}};
  LoaderArray scaled = of_long(windows);
  scaled.name = "y";
  scaled.padding.clear();
  scaled.read.dtype = "float32";
  scaled.scale_by = {.dims = {1}, .scale = {1, 2, 3, 4}, .offset = {0, 1, 0, 1}};
  expect_none_per_sample({aligned, scaled});
}

TEST_P(LoaderAllocation, Shards) {
  RawArray about;
  about.shape = {520, 32};
  about.chunk = {40, 32};
  about.inner = {4, 16};
  about.missing_every = 0;
  const Store store = new_store();
  ASSERT_TRUE(write_raw_array(*Access::impl(store), "", about).ok());
  const Array array = Array::open(store).value();
  expect_none_per_sample(
      {{"x", array, Windows::create(dims(about.shape), {.input_dims = {{"lat", 2}}}).value(), {}, {}}});
}

// Whichever allocation of a restart fails, next() reports it or goes on, and another restart helps.
TEST_P(LoaderAllocation, ARestartWithoutMemoryLeavesNobodyWaiting) {
  const Windows windows = Windows::create(dims(kLong), {.input_dims = {{"time", 2}}}).value();
  LoaderOptions how;
  how.split.batch_size = 64;
  Loader loader = Loader::create(*device_, {of_long(windows)}, how).value();
  const LoaderState start{0, {0, 0}, loader.schema()};
  bool refused = true;
  for (std::uint64_t n = 0; refused; ++n) {
    ASSERT_LT(n, 200u);
    support::fail_at_in_this_thread(n);
    bool restarted = false;
    try {
      restarted = loader.restart_at(start).ok();
    } catch (const std::bad_alloc&) {
    }
    refused = support::stop_failing() != 0;
    ASSERT_TRUE(restarted || refused);
    ASSERT_TRUE(loader.wait_for(std::chrono::seconds(30))) << "request " << n;
    const auto batch = loader.next();
    EXPECT_TRUE(batch.ok() || batch.status().code() == Code::kResourceExhausted) << batch.status().to_string();
    EXPECT_TRUE(batch.ok() || !restarted);
    ASSERT_TRUE(loader.restart_at(start).ok());
    ASSERT_TRUE(loader.next().ok());
  }
}

}  // namespace
}  // namespace headrace
