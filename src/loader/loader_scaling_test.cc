// Scales by index are applied by the reading threads: the consumer touches no element, and a failure there fails the
// read.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/access.h"
#include "device/device.h"
#include "loader/loader_testing.h"
#include "support/forwarding_device.h"

namespace headrace {
namespace {

using namespace testing;

// Wraps a device and records which thread scales or moves elements.
class WatchedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  std::atomic<std::uint64_t> scaled{0};       // elements, on any thread
  std::atomic<std::uint64_t> on_consumer{0};  // calls on the test's thread
  std::atomic<int> to_fail{-1};               // scaling calls that succeed before one fails; -1: none fails

  Status assemble(std::span<const device::Box> boxes, const device::ElementOp& op, const std::byte* fill,
                  device::Stream& stream) override {
    note();
    if (op.conversion.scaled && op.conversion.from == op.conversion.to) {
      if (to_fail.load() >= 0 && to_fail.fetch_sub(1) == 0) {
        return Status(Code::kIo, Layer::kDevice, "scaling was told to fail");
      }
      for (const device::Box& box : boxes) {
        std::uint64_t elements = 1;
        for (int d = 0; d < box.rank; ++d) elements *= box.dim[static_cast<std::size_t>(d)].extent;
        scaled += elements;
      }
    }
    return real_->assemble(boxes, op, fill, stream);
  }
  Status copy_to_device(std::span<const device::Piece> pieces, device::Stream& stream) override {
    note();
    return real_->copy_to_device(pieces, stream);
  }
  Status synchronize(device::Event& event) override {
    note();
    return real_->synchronize(event);
  }

 private:
  void note() {
    if (std::this_thread::get_id() == consumer_) ++on_consumer;
  }

  const std::thread::id consumer_ = std::this_thread::get_id();
};

class LoaderScaling : public LoaderTest {
 protected:
  void SetUp() override {
    LoaderTest::SetUp();
    if (IsSkipped()) return;
    watched_ = std::make_shared<WatchedDevice>(Access::impl(*device_));
    watched_device_ = std::make_unique<Device>(Access::make<Device>(watched_));
  }
  // Pairs of times, scaled by latitude.
  LoaderArray scaled(const std::string& name) const {
    LoaderArray array{name, *array_, Windows::create(dims(kShape), {.input_dims = {{"time", 2}}}).value()};
    array.read.dtype = "float32";
    array.scale_by.dims = {1};
    for (std::uint64_t lat = 0; lat < kShape[1]; ++lat) {
      array.scale_by.scale.push_back(static_cast<double>(lat % 3) + 1);
      array.scale_by.offset.push_back(static_cast<double>(lat));
    }
    return array;
  }
  static constexpr std::uint64_t kElements = std::uint64_t{2} * 12 * 16;  // per sample

  void expect_scaled(const LoaderBatch& batch, std::size_t tensor) const {
    std::vector<float> out(batch.samples().size() * kElements);
    ASSERT_TRUE(batch.copy_to_host(tensor, 0, reinterpret_cast<std::byte*>(out.data()), out.size() * 4).ok());
    std::size_t i = 0;
    for (const std::uint64_t sample : batch.samples()) {
      for_each_index({2, kShape[1], kShape[2]}, [&](const Shape& inside) {
        const Shape at = {sample * 2 + inside[0], inside[1], inside[2]};
        const auto wanted = static_cast<float>(value_at(at, kShape) * (at[1] % 3 + 1) + at[1]);
        ASSERT_EQ(out[i++], wanted) << "sample " << sample;
      });
    }
  }

  std::shared_ptr<WatchedDevice> watched_;
  std::unique_ptr<Device> watched_device_;
};
INSTANTIATE_TEST_SUITE_P(All, LoaderScaling, ::testing::Values("host", "host-staged", "cuda"), loader_device_name);

TEST_P(LoaderScaling, RunsOffTheConsumersThread) {
  for (const std::uint64_t batch_size : {1u, 2u, 5u}) {
    watched_->scaled = 0;
    LoaderOptions how;
    how.split.batch_size = batch_size;
    how.order = Order::full_shuffle(11).value();
    how.epochs = 3;
    how.read_ahead = 3;
    how.read_together = batch_size == 2 ? 2 : 1;
    Loader loader = Loader::create(*watched_device_, {scaled("x"), scaled("y")}, how).value();
    watched_->on_consumer = 0;
    std::uint64_t batches = 0;
    for (std::uint64_t ends = 0; ends < how.epochs;) {
      const std::optional<LoaderBatch> batch = loader.next().value();
      EXPECT_EQ(watched_->on_consumer.exchange(0), 0u);
      ends += batch ? 0 : 1;
      if (!batch) continue;
      ++batches;
      for (const std::size_t tensor : {0u, 1u}) expect_scaled(*batch, tensor);
      watched_->on_consumer = 0;  // ignore this test's own copies
    }
    EXPECT_EQ(batches, 3 * loader.batches());
    // The counted device calls did the work, and scaled each element once.
    EXPECT_EQ(watched_->scaled.load(), batches * batch_size * kElements * 2);
  }
}

TEST_P(LoaderScaling, AFailureIsThatOfItsBatchOnly) {
  for (const int before : {0, 5}) {
    LoaderOptions how;
    how.split.batch_size = 2;
    how.read_ahead = 1;
    watched_->to_fail = before;
    Loader loader = Loader::create(*watched_device_, {scaled("x")}, how).value();
    const auto failed = loader.next();
    EXPECT_EQ(failed.status().code(), Code::kIo);
    EXPECT_NE(failed.status().message().find("told to fail"), std::string::npos) << failed.status().to_string();
    std::uint64_t batches = 0;
    while (const std::optional<LoaderBatch> batch = loader.next().value()) {
      ++batches;
      EXPECT_EQ(batch->number(), batches);
      expect_scaled(*batch, 0);
    }
    EXPECT_EQ(batches + 1, loader.batches());
  }
}

}  // namespace
}  // namespace headrace
