// Long objects that a device decodes come straight into the slab that it takes them from, however long they turn out to
// be and whatever is wrong with them; and a store that is slow to end a read that was cancelled harms nobody.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "backends/dev_host/host_memory.h"
#include "backends/dev_host/staged_decoder.h"
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

class Arrivals : public ByteStoreTest, public ::testing::WithParamInterface<Layout> {
 protected:
  void SetUp() override {
    device::staged_decode_model().any_codec = true;
    options_.placement = Placement::kGpu;
    habits_.change = [this](RangeRead& read) {
      if (read.out.size() < transfer::kLeastArrivingBytes) return;  // metadata
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

TEST_P(Arrivals, OfWhichSomeAreMissingOrDamaged) {
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

// Longer than was asked for at first: it is asked for once more.
TEST_P(Arrivals, MayBeLongerThanThought) {
  if (GetParam() != Layout::kZstd) GTEST_SKIP() << "other codecs have no such chunks";
  for (const bool tells : {false, true}) {
    Objects objects = objects_of(content_);
    store::Bytes& longer = objects.at(content_.key(4));
    // Frames that say nothing: of a skippable one the length is in its head.
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
TEST_P(Arrivals, StayUntilTheStoreIsThrough) {
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

INSTANTIATE_TEST_SUITE_P(All, Arrivals, ::testing::Values(Layout::kZstd, Layout::kBlosc),
                         [](const auto& about) { return testing::layout_name(about.param); });

}  // namespace
}  // namespace headrace
