// Shards in a user-supplied store: their indexes are requested together. A shard that changes during a read gives an
// error, never elements of two versions.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "base/access.h"
#include "store/range_store.h"
#include "support/byte_store_testing.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using testing::FlatArray;
using testing::Layout;
using testing::Objects;
using testing::objects_of;
using testing::RangeHabits;
using testing::RangeStoreInMemory;
using testing::ReadOutcome;
using testing::ShapedStore;

class ByteStoreShards : public testing::ByteStoreTest {};

// 1,000 shards whose indexes take 20 ms each: sequentially, 20 seconds. In a second read, a store with versions needs
// no index again; without versions, each is requested again, but only those of the selected shards.
TEST_F(ByteStoreShards, ShardIndexesAreRequestedTogether) {
  const FlatArray content{.layout = Layout::kShardedZstd, .chunks = 2000, .chunk_elements = 16, .shard_chunks = 2};
  for (const bool tells_version : {false, true}) {
    std::atomic<std::size_t> indexes{0};
    RangeHabits habits;
    habits.delay = milliseconds(20);
    habits.tells_version = tells_version;
    habits.change = [&](RangeRead& read) { indexes += read.from_end ? 1 : 0; };
    auto store = std::make_shared<RangeStoreInMemory>(objects_of(content), habits);
    ContextOptions options;
    options.threads = 2;
    const Context context = Context::create(options).value();
    const Array array = Array::open(Store::open(context, store).value()).value();
    const auto timed_read = [&](const std::string& selection, std::uint64_t begin, std::uint64_t count) {
      std::vector<std::uint32_t> elements(count);
      const auto start = std::chrono::steady_clock::now();
      const Status status =
          array.read(parse_selection(selection).value(), {elements, {count}}, Device::open("host").value());
      const auto took = std::chrono::steady_clock::now() - start;
      EXPECT_TRUE(status.ok()) << status.to_string();
      const std::vector<std::uint32_t> all = content.expected();
      EXPECT_TRUE(std::equal(elements.begin(), elements.end(), all.begin() + static_cast<std::ptrdiff_t>(begin)));
      return took;
    };
    EXPECT_LT(timed_read("", 0, content.elements()), milliseconds(5000));
    EXPECT_GE(indexes, 1000u);
    EXPECT_GE(store->max_in_flight, 100u);
    indexes = 0;
    (void)timed_read("0:96", 0, 96);
    EXPECT_EQ(indexes, tells_version ? 0u : 3u);
    EXPECT_EQ(store->in_flight, 0u);
  }
}

// Selects the first element of every second of 64 chunks of 256 bytes. If a chunk is read alone, only that element is
// read.
TEST_F(ByteStoreShards, AdjacentRangesAreMergedAsTheStoreAdvises) {
  const FlatArray content{.layout = Layout::kShardedRaw, .chunks = 64, .chunk_elements = 64, .shard_chunks = 64};
  std::atomic<std::size_t> chunks{0}, bytes{0};
  RangeHabits habits;
  habits.tells_version = true;  // otherwise the index is requested again
  habits.change = [&](RangeRead& read) {
    if (read.from_end || is_metadata(read)) return;
    ++chunks;
    bytes += read.out.size();
  };
  auto store = std::make_shared<ShapedStore>(objects_of(content), habits);
  const auto ranges = std::make_shared<store::RangeStore>(store, store);
  EXPECT_EQ(store::RangeStore(store, store, true).read_shape().gap_bytes, 7u);
  const Array array = Array::open(Access::make<Store>(context_, ranges)).value();
  const struct {
    std::uint64_t gap, group;
    std::size_t requests, bytes;
  } rows[] = {{255, 1 << 20, 32, 32 * 4},
              {0, 1 << 20, 32, 32 * 4},
              {256, 1 << 20, 1, 63 * 256},
              {256, 1024, 16, 32 * 256 + 16 * 256},
              {~std::uint64_t{0}, ~std::uint64_t{0}, 1, 63 * 256},
              {1 << 20, 0, 32, 32 * 4}};
  for (const auto& row : rows) {
    store->shape.gap_bytes = row.gap;
    store->shape.group_bytes = row.group;
    store->shape.max_group_bytes = std::max<std::uint64_t>(row.group, 1 << 20);
    chunks = bytes = 0;
    const ReadOutcome out = read(array, content, "host", "0:4096:128");
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    for (std::size_t i = 0; i < out.elements.size(); ++i) {
      ASSERT_EQ(out.elements[i], content.values(i * 128, 1)[0]) << i;
    }
    EXPECT_EQ(chunks, row.requests) << row.gap << " " << row.group;
    EXPECT_EQ(bytes, row.bytes) << row.gap << " " << row.group;
  }
}

TEST_F(ByteStoreShards, CancelledReadsDoNotWaitForIndexes) {
  const FlatArray content{.layout = Layout::kShardedZstd, .chunks = 400, .shard_chunks = 2};
  for (const unsigned threads : {1u, 3u}) expect_cancelling_is_passed_on(content, 100, threads);
}

TEST_F(ByteStoreShards, ADeletedShardIsNotTheFillValue) {
  const FlatArray content{.layout = Layout::kShardedRaw, .chunks = 12, .shard_chunks = 4};
  RangeHabits habits;
  habits.change = [](RangeRead& read) {
    if (!read.from_end && !is_metadata(read)) read.status = Status(Code::kNotFound, Layer::kStore, "gone");
  };
  EXPECT_EQ(read_changed(content, habits).status.code(), Code::kAgainExhausted);
}

// The old elements, the new ones, or an error that the next read does not see again.
TEST_F(ByteStoreShards, AShardThatIsReplacedIsNoticed) {
  const FlatArray before{.layout = Layout::kShardedZstd, .chunks = 12, .shard_chunks = 4};
  FlatArray after = before;
  after.seed = 77;
  for (const bool tells_version : {true, false}) {
    RangeHabits habits;
    habits.tells_version = tells_version;
    auto store = std::make_shared<RangeStoreInMemory>(objects_of(before), habits);
    const Array array = Array::open(Store::open(context_, store).value()).value();
    std::vector<std::uint32_t> elements(before.elements());
    const auto again = [&] { return array.read({}, {elements, {before.elements()}}, Device::open("host").value()); };
    ASSERT_TRUE(again().ok());
    const std::size_t first = store->started;
    ASSERT_TRUE(again().ok());
    EXPECT_EQ(store->started - first, tells_version ? 3u : 9u) << "three shards: their chunks, and indexes twice";
    for (const auto& [key, bytes] : objects_of(after)) ASSERT_TRUE(store->put(key, bytes).ok());
    const Status noticed = again();
    EXPECT_EQ(noticed.code(), tells_version ? Code::kAgainExhausted : Code::kOk) << noticed.to_string();
    for (int i = 0; i < 3 && !again().ok(); ++i) {
    }
    ASSERT_TRUE(again().ok());
    EXPECT_TRUE(elements == after.expected());
  }
}

TEST_F(ByteStoreShards, AShardThatIsReplacedWhileItIsReadIsAnError) {
  const FlatArray before{.layout = Layout::kShardedRaw, .chunks = 40, .chunk_elements = 64, .shard_chunks = 40};
  const store::Bytes shard = objects_of(before)[before.key(0)];
  for (const bool tells_version : {true, false}) {
    std::shared_ptr<RangeStoreInMemory> store;
    std::atomic<bool> done{false};
    RangeHabits habits;
    habits.tells_version = tells_version;
    habits.change = [&](RangeRead& read) {  // after the index was read, before the chunks
      if (!read.from_end || is_metadata(read) || done.exchange(true)) return;
      store::Bytes other = shard;
      other.insert(other.begin(), std::byte{});  // moves all chunks
      other.pop_back();
      ASSERT_TRUE(store->put(read.key, other).ok());
    };
    store = std::make_shared<RangeStoreInMemory>(objects_of(before), habits);
    const ReadOutcome out = read(context_, store, before);
    EXPECT_TRUE(done);
    EXPECT_FALSE(out.status.ok());
    if (tells_version) {
      EXPECT_EQ(out.status.code(), Code::kAgainExhausted);
    }
  }
}

// Holds back the index of one shard until it is released.
struct HoldingStore final : ByteStore {
  HoldingStore(Objects objects, std::string key) : behind(std::move(objects)), held_key(std::move(key)) {}
  std::string url() const override { return behind.url(); }
  Status start(std::span<RangeRead* const> reads) override {
    std::vector<RangeRead*> others;
    for (RangeRead* read : reads) {
      if (read->from_end && read->key == held_key && held.exchange(read) == nullptr) continue;
      chunks += read->out.size() == kIndexBytes || read->key == "zarr.json" ? 0 : 1;
      others.push_back(read);
    }
    return others.empty() ? Status() : behind.start(others);
  }
  void cancel(std::span<RangeRead* const> reads) noexcept override {
    behind.cancel(reads);
    for (RangeRead* read : reads) {
      if (read != held || gave_back.exchange(true)) continue;
      read->status = Status(Code::kCancelled, Layer::kStore, "cancelled");
      read->listener->done({&read, 1});
    }
  }
  void release() {
    RangeRead* const read = held;
    if (read == nullptr || gave_back.exchange(true)) return;
    ASSERT_TRUE(behind.start({&read, 1}).ok());
  }
  static constexpr std::size_t kIndexBytes = 32;
  RangeStoreInMemory behind;
  const std::string held_key;
  std::atomic<RangeRead*> held{nullptr};
  std::atomic<bool> gave_back{false};
  std::atomic<std::size_t> chunks{0};
};

// While the plan waits for an index, the waves already filled are read, even with a single worker.
class IndexIsAwaited : public testing::ByteStoreTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  void begin() {
    store_ = std::make_shared<HoldingStore>(objects_of(content_), "c/200");
    const Context context = make_context(GetParam());
    const Array array = Array::open(Store::open(context, store_).value()).value();
    elements_.assign(content_.elements(), 0);
    reading_.emplace(array.read_async({}, {elements_, {content_.elements()}}, Device::open("host").value()).value());
  }
  void wait_for_waves() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((store_->held == nullptr || store_->behind.in_flight > 0 || store_->chunks < 192) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(reading_->done());
    EXPECT_EQ(store_->chunks, 192u) << "six waves of 32 shards are filled by then";
  }

  const FlatArray content_{.layout = Layout::kShardedZstd, .chunks = 800, .shard_chunks = 2};
  std::shared_ptr<HoldingStore> store_;
  std::vector<std::uint32_t> elements_;
  std::optional<Completion> reading_;
};

TEST_P(IndexIsAwaited, WavesGoOn) {
  begin();
  wait_for_waves();
  store_->release();
  ASSERT_TRUE(reading_->wait_for(std::chrono::seconds(20)));
  EXPECT_TRUE(reading_->wait().ok()) << reading_->wait().to_string();
  EXPECT_TRUE(elements_ == content_.expected());
}

// The best of several attempts counts, since a busy machine takes longer.
TEST_P(IndexIsAwaited, CancellingEndsSoon) {
  auto least = std::chrono::steady_clock::duration::max();
  for (int attempt = 0; attempt < 5 && least > milliseconds(100); ++attempt) {
    begin();
    wait_for_waves();
    const auto start = std::chrono::steady_clock::now();
    reading_->cancel();
    ASSERT_TRUE(reading_->wait_for(std::chrono::seconds(20)));
    least = std::min(least, std::chrono::steady_clock::now() - start);
    EXPECT_EQ(reading_->wait().code(), Code::kCancelled);
    EXPECT_EQ(store_->behind.in_flight, 0u);
  }
  EXPECT_LE(least, milliseconds(100));
}

INSTANTIATE_TEST_SUITE_P(Threads, IndexIsAwaited, ::testing::Values(1u, 2u));

}  // namespace
}  // namespace headrace
