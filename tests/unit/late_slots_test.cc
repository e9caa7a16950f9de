// A read begins once its first slab is pinned, and uses the others as they arrive. It may end before, and so may its
// Context. What the caller's stream had queued comes first for each of them.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/fault.h"
#include "support/child.h"
#include "support/flat_array.h"
#include "support/forwarding_device.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using testing::FlatArray;
using testing::Layout;

constexpr std::uint64_t kWaves = 8;

// Notes whether all copies are queued on streams that wait for the caller's.
class OrderedDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void* native_handle(device::Stream& stream) override { return &stream; }
  Status wait_native(device::Stream& stream, void* native) override {
    note(&stream);
    return ForwardingDevice::wait_native(stream, native);
  }
  // The event has been recorded behind the caller's work.
  Status make_native_wait(device::Event&, void* native_stream) override {
    ++later;
    note(native_stream);
    return {};
  }
  Status copy_to_device(std::span<const device::Piece> pieces, device::Stream& stream) override {
    {
      std::lock_guard lock(mutex_);
      copies += 1;
      unordered += waiting_.contains(&stream) ? 0 : 1;
    }
    std::this_thread::sleep_for(milliseconds(10));  // so that the read lasts until slabs arrive
    return ForwardingDevice::copy_to_device(pieces, stream);
  }
  // For another read: nothing waits yet.
  void begin() {
    std::lock_guard lock(mutex_);
    waiting_.clear();
    copies = unordered = later = 0;
  }
  std::atomic<int> copies{0}, unordered{0}, later{0};

 private:
  void note(const void* stream) {
    std::lock_guard lock(mutex_);
    waiting_.insert(stream);
  }
  std::mutex mutex_;
  std::set<const void*> waiting_;  // guarded by mutex_
};

class LateSlots : public ::testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
    device::staged_decode_model().any_codec = true;
    begin_context();
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store_), "", array_).ok());
    buffer_.emplace(Buffer::allocate(device_, array_.elements() * 4).value());
  }
  void TearDown() override {
    base::arm_delay("", milliseconds(0));
    base::disarm_faults();
    device::staged_decode_model().any_codec = false;
  }
  void begin_context() {
    ContextOptions options;
    options.threads = 4;
    options.waves = kWaves;
    options.wave_bytes = 4096;
    context_.emplace(Context::create(options).value());
    store_.emplace(Store::open(*context_, directory_.path()).value());
  }
  void end_context() {
    store_.reset();
    context_.reset();
  }
  Status read() { return read(device_); }
  Status read(const Device& device) {
    std::vector<std::uint32_t> got(array_.elements(), 7);
    const std::size_t bytes = got.size() * 4;
    HEADRACE_TRY(buffer_->copy_from_host(0, reinterpret_cast<const std::byte*>(got.data()), bytes));
    HEADRACE_TRY_ASSIGN(const Array array, Array::open(*store_));
    HEADRACE_TRY(array.read({}, {*buffer_, array.info().dtype, {array_.elements()}}, device));
    HEADRACE_TRY(buffer_->copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), bytes));
    EXPECT_TRUE(got == array_.expected());
    return {};
  }

  support::TempDir directory_;
  const FlatArray array_{.layout = GetParam(), .chunks = 200, .chunk_elements = 256};
  const Device device_ = Device::open("host-staged").value();
  std::optional<Context> context_;
  std::optional<Store> store_;
  std::optional<Buffer> buffer_;
};

TEST_P(LateSlots, AReadEndsBeforeAllOfItsSlabsArePinned) {
  base::arm_delay("transfer.slot", milliseconds(400));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(read().ok());
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(took, milliseconds(400));
  EXPECT_LT(base::delays_begun(), kWaves);
  EXPECT_TRUE(read().ok());  // while the others are being pinned
  end_context();             // likewise
  EXPECT_LE(base::delays_begun(), kWaves + 1);
}

TEST_P(LateSlots, LaterReadsPinNothing) {
  base::arm_delay("transfer.slot", milliseconds(1));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(read().ok());
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
       base::delays_begun() < kWaves && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(read().ok());
  EXPECT_EQ(base::delays_begun(), kWaves);
}

TEST_P(LateSlots, ReadsAtTheSameTime) {
  base::arm_delay("transfer.slot", milliseconds(5));
  const Array array = Array::open(*store_).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        std::vector<std::uint32_t> got(array_.elements());
        Buffer own = Buffer::allocate(device_, got.size() * 4).value();
        EXPECT_TRUE(array.read({}, {own, array.info().dtype, {array_.elements()}}, device_).ok());
        EXPECT_TRUE(own.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
        EXPECT_TRUE(got == array_.expected());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LateSlots, EachWaitsForWhatTheCallersStreamHadQueued) {
  const auto watched = std::make_shared<OrderedDevice>(Access::impl(device_));
  const Device device = Access::make<Device>(std::static_pointer_cast<device::Device>(watched));
  base::arm_delay("transfer.slot", milliseconds(20));
  for (int i = 0; i < 3; ++i) {
    watched->begin();
    EXPECT_TRUE(read(device).ok());
    EXPECT_GT(watched->copies, 0);
    EXPECT_EQ(watched->unordered, 0);
    if (i == 0) {
      EXPECT_GT(watched->later, 0);
    }
  }
}

// The read fails if it still runs, and the next one finds everything in order.
TEST_P(LateSlots, ASlabThatCannotBePinned) {
  for (std::uint64_t turn = 0; turn < 2 * kWaves; ++turn) {
    SCOPED_TRACE(turn);
    const std::uint64_t nth = turn / 2;
    end_context();
    begin_context();
    // No descriptors: no reason to wait until one is closed.
    base::arm_fault({.point = "dev_host.allocate_pinned", .error = turn % 2 == 0 ? ENOMEM : EMFILE, .nth = nth});
    const Status status = read();
    if (nth == 0) {
      EXPECT_FALSE(status.ok());
    }
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
    }
    base::disarm_faults();
    EXPECT_TRUE(read().ok());
  }
}

TEST_P(LateSlots, ACancelledReadEnds) {
  base::arm_delay("transfer.slot", milliseconds(50));
  const Array array = Array::open(*store_).value();
  for (const int after_ms : {0, 20, 60}) {
    auto reading = array.read_async({}, {*buffer_, array.info().dtype, {array_.elements()}}, device_).value();
    std::this_thread::sleep_for(milliseconds(after_ms));
    reading.cancel();
    const Status status = reading.wait();
    EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled) << status.to_string();
  }
  EXPECT_TRUE(read().ok());
}

// A read's end waits for the kernels that are being loaded for it, since they are those of its array.
TEST_P(LateSlots, NoKernelIsLoadedForAnArrayThatIsGone) {
  base::arm_delay("transfer.load", milliseconds(200));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(read().ok());  // and closes the array
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_TRUE(base::delays_begun() == 0 || took >= milliseconds(200));
  std::this_thread::sleep_for(milliseconds(250));  // AddressSanitizer would see a later use
}

TEST_P(LateSlots, AForkedChildLeavesThemToItsParent) {
  // A thread of the parent may hold a lock at the time of the fork.
  if (support::kThreadSanitizer) GTEST_SKIP() << "a forked child may wait for ever in ThreadSanitizer's malloc()";
  base::arm_delay("transfer.slot", milliseconds(100));
  const Array array = Array::open(*store_).value();
  auto reading = array.read_async({}, {*buffer_, array.info().dtype, {array_.elements()}}, device_).value();
  const int child = support::in_child([&] {
    { const auto inherited = std::move(reading); }
    end_context();
    return 0;
  });
  EXPECT_EQ(child, 0);
  EXPECT_TRUE(reading.wait().ok());
  EXPECT_TRUE(read().ok());
}

INSTANTIATE_TEST_SUITE_P(Layouts, LateSlots, ::testing::Values(Layout::kRaw, Layout::kZstd, Layout::kShardedZstd),
                         [](const auto& layout) { return std::string(testing::layout_name(layout.param)); });

}  // namespace
}  // namespace headrace
