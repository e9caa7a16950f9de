// Long objects that a device decodes are read straight into its slab, even if they are longer than expected or damaged.
// A store that is slow to end a cancelled read corrupts nothing.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "backends/dev_host/host_memory.h"
#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "store/range_store.h"
#include "support/byte_store_testing.h"
#include "transfer/read/read_sizes.h"

namespace headrace {
namespace {

using testing::ByteStoreTest;
using testing::FlatArray;
using testing::Layout;
using testing::Objects;
using testing::objects_of;
using testing::RangeHabits;
using testing::RangeStoreInMemory;
using testing::ShapedStore;

class Arrivals : public ByteStoreTest, public ::testing::WithParamInterface<Layout> {
 protected:
  void SetUp() override {
    device::staged_decode_model().any_codec = true;
    options_.placement = Placement::kGpu;
    habits_.change = [this](RangeRead& read) {
      if (read.out.size() < transfer::kMinArrivingBytes) return;  // metadata
      ++(device::is_pinned_memory(read.out.data(), read.out.size()) ? direct_ : copied_);
    };
  }
  void TearDown() override { device::staged_decode_model().any_codec = false; }

  testing::ReadOutcome read_all(const std::shared_ptr<RangeStoreInMemory>& store) {
    testing::ReadOutcome all = read(context_, store, content_, "host-staged", "", options_);
    EXPECT_EQ(store->in_flight, 0u);
    return all;
  }
  static void append(store::Bytes& bytes, std::initializer_list<int> more) {
    for (const int byte : more) bytes.push_back(static_cast<std::byte>(byte));
  }

  const FlatArray content_{.layout = GetParam(), .chunks = 13, .chunk_elements = 100'000};
  RangeHabits habits_;
  ReadOptions options_;
  std::atomic<int> direct_{0}, copied_{0};
};

TEST_P(Arrivals, AreDirect) {
  for (const auto answers : {RangeHabits::Answers::kOnThread, RangeHabits::Answers::kInStart,
                             RangeHabits::Answers::kReversed, RangeHabits::Answers::kInOneBatch}) {
    for (const bool tells : {false, true}) {
      habits_.answers = answers;
      habits_.tells_size = habits_.tells_version = tells;
      direct_ = copied_ = 0;
      const auto all = read_all(std::make_shared<RangeStoreInMemory>(objects_of(content_), habits_));
      ASSERT_TRUE(all.status.ok()) << all.status.to_string();
      EXPECT_TRUE(all.elements == content_.expected());
      EXPECT_EQ(direct_, 13);
      EXPECT_EQ(copied_, 0);
    }
  }
}

TEST_P(Arrivals, SomeMayBeMissingOrDamaged) {
  Objects objects = objects_of(content_);
  objects.erase(content_.key(3));
  store::Bytes& damaged = objects.at(content_.key(5));
  std::fill(damaged.begin(), damaged.begin() + 16, std::byte{0xff});
  objects.at(content_.key(7)).resize(30);
  options_.collect_errors = true;
  const auto all = read_all(std::make_shared<RangeStoreInMemory>(objects, habits_));
  ASSERT_TRUE(all.status.ok()) << all.status.to_string();
  EXPECT_EQ(all.stats.chunks, 10u);
  EXPECT_EQ(all.stats.missing_chunks, 1u);
  const auto expected = content_.expected();
  for (std::uint64_t chunk = 0; chunk < content_.chunks; ++chunk) {
    if (chunk == 3 || chunk == 5 || chunk == 7) continue;
    const auto begin = static_cast<std::ptrdiff_t>(chunk * content_.chunk_elements),
               end = begin + static_cast<std::ptrdiff_t>(content_.chunk_elements);
    EXPECT_TRUE(std::equal(all.elements.begin() + begin, all.elements.begin() + end, expected.begin() + begin))
        << chunk;
  }
}

// An object longer than the first request is requested a second time. The result is right, or the error names its key.
TEST_P(Arrivals, MayBeLongerThanExpected) {
  for (const bool tells : {false, true}) {
    Objects objects = objects_of(content_);
    store::Bytes& longer = objects.at(content_.key(4));
    // Appends a skippable frame, whose head has its length: valid after zstd, garbage after Blosc.
    constexpr std::uint32_t kMore = 150'000;
    append(longer, {0x50, 0x2a, 0x4d, 0x18, kMore & 0xff, kMore >> 8 & 0xff, kMore >> 16, 0});
    longer.resize(longer.size() + kMore);
    habits_.tells_size = tells;
    const auto all = read_all(std::make_shared<RangeStoreInMemory>(objects, habits_));
    if (all.status.ok()) {
      EXPECT_TRUE(all.elements == content_.expected());
    } else {
      EXPECT_EQ(all.status.code(), Code::kCorrupt) << all.status.to_string();
      EXPECT_NE(all.status.to_string().find(content_.key(4)), std::string::npos) << all.status.to_string();
    }
  }
}

// The store goes on writing until it ends its reads, long after the read was asked to stop.
TEST_P(Arrivals, MemoryIsKeptUntilTheStoreIsDone) {
  habits_.delay = std::chrono::milliseconds(30);
  auto store = std::make_shared<RangeStoreInMemory>(objects_of(content_), habits_);
  store->ignores_cancel = true;
  const Cancel cancel;
  options_.cancel = cancel;
  std::thread asker([&] {
    while (store->in_flight < 3) std::this_thread::yield();
    cancel.ask();
  });
  const auto all = read_all(store);
  asker.join();
  EXPECT_EQ(all.status.code(), Code::kCancelled) << all.status.to_string();
  EXPECT_GT(direct_, 0);
}

// Raw chunks are read into their final place: the tensor, or the slab that is copied over the bus.
class RawArrivals : public ByteStoreTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    buffer_ = Buffer::allocate(device_, content_.elements() * 4).value();
    habits_.change = [this](RangeRead& read) {
      if (read.key.find_first_not_of("0123456789") != std::string_view::npos) return;  // metadata
      const bool staged = device_.name() == "host-staged";
      const bool direct =
          staged ? device::is_pinned_memory(read.out.data(), read.out.size())
                 : read.out.data() >= buffer_.data() && read.out.data() < buffer_.data() + buffer_.size_bytes();
      ++(direct ? direct_ : copied_);
      if (hides_ && ++answers_ > 3) read.object_bytes = RangeRead::kUnknown;
    };
  }
  Status read_into(const Objects& objects, const ReadOptions& options = {}) {
    const auto behind = std::make_shared<ShapedStore>(objects, habits_);
    behind->shape.tells_lengths = tells_lengths_;
    const Array array =
        Array::open(Access::make<Store>(context_, std::make_shared<store::RangeStore>(behind, behind))).value();
    return array.read({}, {buffer_, array.info().dtype, {content_.elements()}}, device_, options);
  }
  std::vector<std::uint32_t> elements() {
    std::vector<std::uint32_t> out(content_.elements());
    EXPECT_TRUE(buffer_.copy_to_host(0, reinterpret_cast<std::byte*>(out.data()), out.size() * 4).ok());
    return out;
  }

  const FlatArray content_{.layout = Layout::kRaw, .chunks = 40, .chunk_elements = 5000};
  const Device device_ = Device::open(GetParam()).value();
  Buffer buffer_;
  RangeHabits habits_;
  bool hides_ = false, tells_lengths_ = true;
  std::atomic<int> direct_{0}, copied_{0}, answers_{0};
};

TEST_P(RawArrivals, AreDirectIfTheStoreReportsLengths) {
  ASSERT_TRUE(read_into(objects_of(content_)).ok());
  EXPECT_TRUE(elements() == content_.expected());
  EXPECT_EQ(direct_, 40);
  EXPECT_EQ(copied_, 0);
  direct_ = 0;
  tells_lengths_ = false;
  ASSERT_TRUE(read_into(objects_of(content_)).ok());
  EXPECT_TRUE(elements() == content_.expected());
  EXPECT_EQ(direct_, 0);
}

// One byte more than expected is requested, which reveals a wrong length as well.
TEST_P(RawArrivals, OfAStoreThatStopsReportingLengths) {
  hides_ = true;
  ASSERT_TRUE(read_into(objects_of(content_)).ok());
  EXPECT_TRUE(elements() == content_.expected());
}

TEST_P(RawArrivals, OfAnotherLengthAreErrors) {
  for (const std::size_t bytes : {0u, 100u, 19'999u, 20'001u, 40'000u}) {
    Objects objects = objects_of(content_);
    objects.at(content_.key(33)).resize(bytes);
    const Status status = read_into(objects);
    EXPECT_FALSE(status.ok()) << bytes;
    EXPECT_NE(status.to_string().find("33"), std::string::npos) << status.to_string();
    // With collect_errors, the bad chunk's elements are left unchanged.
    std::vector<std::uint32_t> before(content_.elements(), 0x55555555);
    ASSERT_TRUE(buffer_.copy_from_host(0, reinterpret_cast<const std::byte*>(before.data()), before.size() * 4).ok());
    ReadOptions options;
    options.collect_errors = true;
    EXPECT_TRUE(read_into(objects, options).ok());
    auto expected = content_.expected();
    std::fill_n(expected.begin() + std::ptrdiff_t{33} * 5000, 5000, 0x55555555u);
    EXPECT_TRUE(elements() == expected) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RawArrivals, ::testing::Values("host", "host-staged"),
                         [](const auto& about) { return std::string(about.param) == "host" ? "host" : "staged"; });

INSTANTIATE_TEST_SUITE_P(All, Arrivals, ::testing::Values(Layout::kZstd, Layout::kBlosc),
                         [](const auto& about) { return testing::layout_name(about.param); });

}  // namespace
}  // namespace headrace
