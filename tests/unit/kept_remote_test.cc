// Kept chunks of stores without files, on the device or in host memory: chunks whose version the store has reported are
// not requested again.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "support/byte_store_testing.h"
#include "zarr/kept_read.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
using testing::Objects;
using testing::RangeHabits;
using testing::RangeStoreInMemory;
using transfer::ChunkCache;

constexpr std::uint64_t kChunks = 40, kElements = 5'000;
constexpr std::uint64_t kPlaceBytes = (kElements * 4 + 255) / 256 * 256;
constexpr Layout kLayouts[] = {Layout::kZstd, Layout::kBlosc, Layout::kRaw, Layout::kShardedZstd, Layout::kShardedRaw};

bool is_raw(Layout layout) { return layout == Layout::kRaw || layout == Layout::kShardedRaw; }
bool is_sharded(Layout layout) { return layout == Layout::kShardedZstd || layout == Layout::kShardedRaw; }

struct Way {
  const char* name;
  const char* device;
  ChunkCache::Form form;
  bool in_memory;  // in host memory
};

class KeptRemoteChunks : public ::testing::TestWithParam<Way> {
 protected:
  void TearDown() override { device::staged_decode_model().any_codec = false; }

  static bool encoded() { return GetParam().form == ChunkCache::Form::kEncoded; }
  static bool in_memory() { return GetParam().in_memory; }
  static std::uint64_t kept(const Stats& stats) { return stats.kept_chunks + stats.kept_encoded_chunks; }
  static transfer::KeptChunks caches(const std::shared_ptr<ChunkCache>& cache) {
    return in_memory() ? transfer::KeptChunks{nullptr, cache} : transfer::KeptChunks{cache, nullptr};
  }
  // Requests since the last call.
  std::size_t asked() {
    const std::size_t now = store_->started;
    return now - std::exchange(asked_before_, now);
  }

  void open(Layout layout, RangeHabits habits, const OpenOptions& options = {}) {
    device::staged_decode_model().any_codec = !is_raw(layout);  // otherwise it would decode raw chunks too
    content_ = {.layout = layout, .chunks = kChunks, .chunk_elements = kElements, .shard_chunks = 8};
    store_ = std::make_shared<RangeStoreInMemory>(testing::objects_of(content_), std::move(habits));
    array_ = std::make_unique<Array>(Array::open(headrace::Store::open(context_, store_).value(), "", options).value());
    expected_ = content_.expected();
    asked_before_ = store_->started;
  }
  std::shared_ptr<ChunkCache> cache(std::uint64_t bytes = kChunks * kPlaceBytes) const {
    const Device host = Device::open("host").value();
    return std::make_shared<ChunkCache>(Access::impl(in_memory() ? host : device_), GetParam().form,
                                        ChunkCache::Limits{bytes, kChunks});
  }
  struct Range {
    std::uint64_t begin, count;
  };
  static constexpr Range kAll = {0, kChunks* kElements};
  // Reads the range; if the status is OK, compares the elements with `expected_`.
  Status read(const std::shared_ptr<ChunkCache>& cache, Stats& stats, Range range = kAll,
              Placement placement = Placement::kAuto) const {
    const Buffer buffer = Buffer::allocate(device_, range.count * 4).value();
    const auto from = static_cast<std::int64_t>(range.begin);
    const ReadPart part{{{.start = from, .stop = from + static_cast<std::int64_t>(range.count)}},
                        {buffer, array_->info().dtype, {range.count}}};
    ReadOptions options;
    options.placement = placement;
    Result<Completion> read = zarr::read_many_kept(*array_, {&part, 1}, device_, options, caches(cache));
    if (!read.ok()) return std::move(read).status();
    Status status = read->wait();
    stats = read->stats();
    if (!status.ok()) return status;
    std::vector<std::uint32_t> got(range.count);
    EXPECT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
    EXPECT_EQ(std::memcmp(got.data(), &expected_[range.begin], got.size() * 4), 0);
    return status;
  }
  static Range random_range(std::mt19937_64& random) {
    const std::uint64_t count = 1 + random() % (3 * kElements);
    return {random() % (kChunks * kElements - count + 1), count};
  }
  // Fills in the elements expected of a chunk that was removed.
  void fill_expected(std::uint64_t chunk) {
    std::fill_n(expected_.begin() + static_cast<std::ptrdiff_t>(chunk * kElements), kElements, testing::kFillValue);
  }

  Context context_ = Context::create({.threads = 3}).value();
  const Device device_ = Device::open(GetParam().device).value();
  FlatArray content_;
  std::shared_ptr<RangeStoreInMemory> store_;
  std::unique_ptr<Array> array_;
  std::vector<std::uint32_t> expected_;
  std::size_t asked_before_ = 0;
};

TEST_P(KeptRemoteChunks, CachedChunksAreNotRequestedAgain) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout, {.tells_version = true});
    const auto cache = this->cache();
    Stats first, second;
    ASSERT_TRUE(read(cache, first).ok());
    EXPECT_GT(asked(), 0u);
    ASSERT_TRUE(read(cache, second).ok());
    EXPECT_EQ(kept(first), 0u);
    EXPECT_EQ(kept(second), in_memory() ? 0u : kChunks);
    EXPECT_EQ(second.stored_bytes, in_memory() ? first.stored_bytes : 0u);
    EXPECT_EQ(second.memory_bytes, second.stored_bytes);
    EXPECT_EQ(second.read_bytes, second.stored_bytes);
    EXPECT_TRUE(in_memory() || second.bus_bytes == 0);
    std::mt19937_64 random(1);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(read(cache, second, random_range(random)).ok());
    EXPECT_EQ(asked(), 0u);
    if (HasFailure()) return;
  }
}

TEST_P(KeptRemoteChunks, ChunksThatTheCpuDecodes) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout, {.tells_version = true});
    const auto cache = this->cache();
    Stats stats;
    ASSERT_TRUE(read(cache, stats, kAll, Placement::kCpu).ok());
    (void)asked();
    ASSERT_TRUE(read(cache, stats, kAll, Placement::kCpu).ok());
    const bool found = in_memory() || !encoded();
    EXPECT_EQ(kept(stats), encoded() ? 0u : kChunks);
    EXPECT_EQ(asked() == 0, found);
  }
}

// Without versions, nothing shows when a chunk changes.
TEST_P(KeptRemoteChunks, WithoutVersionsNothingIsKept) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout, {});
    if (!is_sharded(layout)) {
      store_->remove(content_.key(5));
      fill_expected(5);
    }
    const auto cache = this->cache();
    Stats stats;
    for (int pass = 0; pass < 3; ++pass) {
      (void)asked();
      ASSERT_TRUE(read(cache, stats).ok());
      EXPECT_EQ(kept(stats), 0u);
      EXPECT_GE(asked(), is_sharded(layout) ? kChunks / 8 : kChunks);
    }
    EXPECT_EQ(cache->used_bytes(), 0u);
  }
}

TEST_P(KeptRemoteChunks, MissingChunksAreNotRequestedAgain) {
  for (const Layout layout : {Layout::kZstd, Layout::kBlosc, Layout::kRaw}) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout, {.tells_version = true});
    for (const std::uint64_t chunk : {0u, 7u, 8u, 39u}) {
      store_->remove(content_.key(chunk));
      fill_expected(chunk);
    }
    const auto cache = this->cache();
    Stats stats;
    ASSERT_TRUE(read(cache, stats).ok());
    EXPECT_EQ(stats.missing_chunks, 4u);
    (void)asked();
    ASSERT_TRUE(read(cache, stats).ok());
    EXPECT_EQ(stats.missing_chunks, 4u);
    EXPECT_EQ(kept(stats), in_memory() ? 0 : kChunks - 4);
    std::mt19937_64 random(2);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(read(cache, stats, random_range(random)).ok());
    EXPECT_EQ(asked(), 0u);
  }
}

// The first request for a few elements reads the whole chunk, as long as there is room; afterwards only parts are read.
TEST_P(KeptRemoteChunks, AFullCacheKeepsWhatItHas) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout, {.tells_version = true});
    std::uint64_t most_bytes = 0;  // room for a quarter of the chunks
    for (std::uint64_t i = 0; i < kChunks; i += 4) {
      most_bytes += encoded() ? (content_.encoded(i).size() + 255) / 256 * 256 : kPlaceBytes;
    }
    const auto cache = this->cache(most_bytes);
    Stats stats;
    std::mt19937_64 random(3);
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(read(cache, stats, random_range(random)).ok());
      EXPECT_LE(cache->used_bytes(), most_bytes);
      if (HasFailure()) return;
    }
    for (int pass = 0; pass < 2; ++pass) ASSERT_TRUE(read(cache, stats).ok());
    if (in_memory()) {
      EXPECT_GT(stats.memory_bytes, is_sharded(layout) ? 0u : 5 * content_.encoded(0).size());
      EXPECT_LT(stats.memory_bytes, stats.stored_bytes);
      EXPECT_EQ(stats.chunks, kChunks);
      continue;
    }
    EXPECT_GT(kept(stats), 0u);
    EXPECT_LT(kept(stats), kChunks);
    EXPECT_EQ(kept(stats) + stats.chunks - stats.kept_encoded_chunks, kChunks);
  }
}

// As long as an array is open, its chunks are as the store first reported them. With `revalidate`, each shard's index
// is requested again, and chunks that only the store can verify are not kept.
TEST_P(KeptRemoteChunks, AnObjectThatIsReplaced) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    for (const bool revalidate : {false, true}) {
      SCOPED_TRACE(std::string(testing::layout_name(layout)) + (revalidate ? " revalidated" : ""));
      OpenOptions options;
      options.revalidate = revalidate;
      open(layout, {.tells_version = true}, options);
      const auto cache = this->cache();
      Stats stats;
      for (int pass = 0; pass < 2; ++pass) ASSERT_TRUE(read(cache, stats).ok());
      FlatArray other = content_;
      other.seed = content_.seed + 1;
      for (const auto& [key, bytes] : testing::objects_of(other)) {
        if (key == other.metadata_key()) continue;
        ASSERT_TRUE(store_->put(key, bytes).ok());
      }
      if (revalidate) expected_ = other.expected();
      for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(read(cache, stats).ok());
      EXPECT_EQ(kept(stats), revalidate || in_memory() ? 0u : kChunks);
      EXPECT_EQ(stats.memory_bytes, in_memory() && !revalidate ? stats.stored_bytes : 0u);
    }
  }
}

// One answer in ten is falsified: the result is an error or the right elements, and once the store is honest, the right
// ones.
TEST_P(KeptRemoteChunks, AStoreWithWrongAnswers) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(testing::layout_name(layout));
    testing::RandomLies lies(5, 10);
    std::atomic<bool> honest{true};
    RangeHabits habits;
    habits.tells_version = true;
    habits.change = [&](RangeRead& read) {
      // An invented version would define the truth for this store, so it is removed.
      const std::string version = read.found_version;
      if (!honest) lies.tell(read);
      if (read.found_version != version) read.found_version.clear();
    };
    open(layout, std::move(habits));
    const auto cache = this->cache();
    std::mt19937_64 random(6);
    Stats stats;
    std::size_t good = 0;
    honest = false;
    for (int i = 0; i < 60; ++i) good += read(cache, stats, random_range(random)).ok() ? 1 : 0;
    EXPECT_GT(good, 0u);
    honest = true;
    for (int pass = 0; pass < 2; ++pass) ASSERT_TRUE(read(cache, stats).ok());
    EXPECT_GT(in_memory() ? stats.memory_bytes / content_.encoded(0).size() : kept(stats), kChunks / 4);
  }
}

// Concurrent reads, some of which are cancelled: the others get every element.
TEST_P(KeptRemoteChunks, ReadsAtOnce) {
  for (const Layout layout : {Layout::kBlosc, Layout::kRaw, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout, {.delay = std::chrono::microseconds(300), .tells_version = true});
    const auto cache = this->cache(kChunks / 2 * kPlaceBytes);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int i = 0; i < 12; ++i) {
          Stats stats;
          if (t != 0) {
            EXPECT_TRUE(read(cache, stats, random_range(random)).ok());
            continue;
          }
          const Buffer out = Buffer::allocate(device_, kChunks * kElements * 4).value();
          const ReadPart all{{{}}, {out, array_->info().dtype, {kChunks * kElements}}};
          const Completion read = zarr::read_many_kept(*array_, {&all, 1}, device_, {}, caches(cache)).value();
          if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
          read.cancel();
          (void)read.wait();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Stats stats;
    for (int pass = 0; pass < 2; ++pass) ASSERT_TRUE(read(cache, stats).ok());
    EXPECT_GT(in_memory() ? stats.memory_bytes / content_.encoded(0).size() : kept(stats), kChunks / 8)
        << "other reads decode the chunks that cancelled reads claimed";
  }
}

constexpr ChunkCache::Form kDecoded = ChunkCache::Form::kDecoded, kEncoded = ChunkCache::Form::kEncoded;

INSTANTIATE_TEST_SUITE_P(All, KeptRemoteChunks,
                         ::testing::Values(Way{"decoded", "host-staged", kDecoded, false},
                                           Way{"encoded", "host-staged", kEncoded, false},
                                           Way{"in_memory", "host-staged", kEncoded, true},
                                           Way{"in_memory_of_the_host", "host", kEncoded, true}),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace headrace
