// Ranges that a disk cache has verified are read like any other file: by workers, by an engine, from a device's
// mappings. Data that a store has replaced, or that was changed on the disk, is never returned.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "cache/local_range.h"
#include "os/file_handle.h"
#include "support/byte_store_testing.h"
#include "support/cached_store.h"
#include "support/temp_dir.h"
#include "transfer/read/cold_part.h"

namespace headrace {
namespace {

using testing::cached_store;
using testing::CachedStoreInMemory;
using testing::FlatArray;
using testing::Layout;
using testing::objects_of;
using testing::ReadOutcome;

namespace fs = std::filesystem;

constexpr Layout kLayouts[] = {Layout::kRaw, Layout::kZstd, Layout::kBlosc, Layout::kShardedRaw, Layout::kShardedZstd};
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Segments of 1 MiB; all but the last are sealed.
cache::CacheOptions small_segments() {
  cache::CacheOptions options;
  options.most_bytes = 64 * kMiB;
  return options;
}

class LocalRangesTest : public testing::ByteStoreTest {
 protected:
  static Context make_mapping_context(const char* engine = "auto", std::size_t wave_bytes = 2 * kMiB) {
    ContextOptions options;
    options.engine = engine;
    options.threads = 3;
    options.wave_bytes = wave_bytes;
    options.host_budget_bytes = 64 * kMiB;
    options.mapped_budget_bytes = 64 * kMiB;  // independent of what other tests have mapped
    return Context::create(options).value();
  }
  void TearDown() override { device::staged_decode_model().any_codec = false; }

  // Several MiB when stored: more than one segment.
  void open(Layout layout, cache::CacheOptions options = small_segments()) {
    content_ = {.layout = layout, .chunks = 40, .chunk_elements = 30'000, .shard_chunks = 8};
    expected_ = content_.expected();
    toy_ = cached_store(directory_ / testing::layout_name(layout), objects_of(content_), std::move(options));
    array_ = std::make_unique<Array>(Array::open(Store::open(mapping_, toy_.store).value()).value());
  }
  ReadOutcome pass(const char* device = "host", const std::string& selection = "") {
    ReadOutcome out = read(*array_, content_, device, selection);
    EXPECT_TRUE(out.status.ok()) << out.status.to_string();
    if (selection.empty()) {
      EXPECT_TRUE(out.elements == expected_);
    }
    return out;
  }
  // Reads until the records are verified and in files that have not changed recently.
  void settle(const char* device = "host") {
    pass(device);
    toy_.flush();
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    pass(device);
    toy_.asked->reset();
  }
  std::vector<std::string> segments() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(toy_.options.directory)) {
      if (entry.path().extension() == ".hrseg") out.push_back(entry.path());
    }
    return out;
  }
  // For failure messages.
  std::string cache_activity() const {
    const auto report = inspect_disk_cache(toy_.options.directory, true);
    if (!report.ok()) return report.status().to_string();
    return std::to_string(report->added_records) + " added, " + std::to_string(report->dropped_records) + " dropped, " +
           std::to_string(report->misses) + " misses; " + report->problem;
  }
  static std::uint64_t by_file(const Stats& stats) {
    return stats.buffered_bytes + stats.engine_bytes + stats.direct_bytes + stats.mapped_bytes;
  }

  support::TempDir directory_;
  Context mapping_ = make_mapping_context();
  FlatArray content_;
  std::vector<std::uint32_t> expected_;
  CachedStoreInMemory toy_;
  std::unique_ptr<Array> array_;
};

TEST_F(LocalRangesTest, VerifiedRecordsAreReadAsFiles) {
  for (const Layout layout : kLayouts) {
    for (const char* device : {"host", "host-staged"}) {
      SCOPED_TRACE(std::string(testing::layout_name(layout)) + " " + device);
      open(layout);
      settle(device);
      const ReadOutcome again = pass(device);
      EXPECT_EQ(toy_.asked->requests, 0u);
      EXPECT_EQ(again.stats.store_bytes, 0u);
      EXPECT_EQ(again.stats.cache_misses, 0u);
      EXPECT_GT(again.stats.cache_hits, 0u);
      // Everything except the records of the last segment.
      EXPECT_GT(by_file(again.stats), again.stats.read_bytes / 2);
      EXPECT_EQ(by_file(again.stats) + again.stats.cache_bytes, again.stats.read_bytes);
      fs::remove_all(toy_.options.directory);
    }
  }
}

TEST_F(LocalRangesTest, VerifiedRecordsAreReadFromMappings) {
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(testing::layout_name(layout));
    device::staged_decode_model().any_codec = layout != Layout::kRaw && layout != Layout::kShardedRaw;
    open(layout);
    settle("host-staged");
    // Windows are registered in the background.
    ReadOutcome again;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    do {
      again = pass("host-staged");
    } while (again.stats.mapped_bytes < again.stats.read_bytes / 2 && std::chrono::steady_clock::now() < deadline);
    EXPECT_GE(again.stats.mapped_bytes, again.stats.read_bytes / 2) << again.stats.path;
    EXPECT_EQ(toy_.asked->requests, 0u) << cache_activity();
  }
}

// The cache identifies ranges by offset and length, but waves may differ in size.
TEST_F(LocalRangesTest, RangesAreTheSameInWavesOfAnySize) {
  for (const Layout layout : {Layout::kShardedRaw, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout);
    settle();
    for (const std::size_t wave_bytes : {16 * kMiB, 5 * kMiB / 2, 5 * kMiB / 4}) {
      const Context context = make_mapping_context("auto", wave_bytes);
      const Array array = Array::open(Store::open(context, toy_.store).value()).value();
      toy_.asked->reset();
      for (const char* device : {"host", "host-staged"}) {
        const ReadOutcome got = read(array, content_, device);
        EXPECT_TRUE(got.status.ok() && got.elements == expected_);
        EXPECT_EQ(got.stats.cache_misses, 0u) << wave_bytes << device;
      }
      EXPECT_EQ(toy_.asked->requests, 0u);
    }
  }
}

TEST_F(LocalRangesTest, PartsOfAWholeChunkAreEnough) {
  const std::uint64_t least = transfer::min_saved_store_bytes.exchange(1);
  open(Layout::kBlosc);
  settle();
  const ReadOutcome all = pass();
  // Records in the segment that is still being written are an exception: they are read and verified as a whole.
  std::size_t in_part = 0;
  for (std::uint64_t chunk = 0; chunk < content_.chunks; ++chunk) {
    const std::uint64_t begin = chunk * content_.chunk_elements;
    const ReadOutcome part = pass("host", std::to_string(begin) + ":" + std::to_string(begin + 100));
    EXPECT_EQ(part.elements.front(), expected_[begin]);
    in_part += part.stats.read_bytes < all.stats.read_bytes / content_.chunks ? 1 : 0;
  }
  EXPECT_EQ(toy_.asked->requests, 0u);
  EXPECT_GT(in_part, content_.chunks / 2);
  transfer::min_saved_store_bytes = least;
}

// Training reads random crops: what one crop has fetched serves others that need other parts of the same chunks.
TEST_F(LocalRangesTest, CachedChunksServeOtherParts) {
  const std::uint64_t least = transfer::min_saved_store_bytes.exchange(1);
  for (const Layout layout : kLayouts) {
    for (const char* device : {"host", "host-staged"}) {
      SCOPED_TRACE(std::string(testing::layout_name(layout)) + " " + device);
      open(layout);
      const auto part = [&](std::uint64_t chunk, std::uint64_t first, std::uint64_t count) {
        const std::uint64_t begin = chunk * content_.chunk_elements + first;
        const ReadOutcome got = pass(device, std::to_string(begin) + ":" + std::to_string(begin + count));
        EXPECT_TRUE(std::equal(got.elements.begin(), got.elements.end(),
                               expected_.begin() + static_cast<std::ptrdiff_t>(begin)));
        return got.stats;
      };
      for (std::uint64_t chunk = 0; chunk < content_.chunks; ++chunk) (void)part(chunk, 100, 5000);
      toy_.flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      toy_.asked->reset();
      Stats sum;
      for (const auto& [first, count] :
           {std::pair<std::uint64_t, std::uint64_t>{20'000, 1000}, {0, 50}, {99, 20'000}}) {
        for (std::uint64_t chunk = 0; chunk < content_.chunks; ++chunk) sum += part(chunk, first, count);
      }
      EXPECT_EQ(toy_.asked->requests, 0u);
      EXPECT_EQ(sum.cache_hits, 3 * content_.chunks);
      fs::remove_all(toy_.options.directory);
    }
  }
  transfer::min_saved_store_bytes = least;
}

// Ranges that will not be kept are requested as without a cache.
TEST_F(LocalRangesTest, WithAFullCacheOnlyPartsAreRequested) {
  for (const Layout layout : {Layout::kRaw, Layout::kShardedRaw}) {
    SCOPED_TRACE(testing::layout_name(layout));
    cache::CacheOptions options = small_segments();
    options.most_bytes = 2 * kMiB;
    open(layout, options);
    for (int i = 0; i < 2; ++i) {
      pass();
      toy_.flush();
    }
    // There may be room for some, and that it is used up is only noticed when a record is to be written.
    std::uint64_t kept = 0, whole = content_.chunks;
    for (int round = 0; round < 50 && whole > 0; ++round) {
      kept = whole = 0;
      for (std::uint64_t chunk = 0; chunk < content_.chunks; ++chunk) {
        const std::uint64_t begin = chunk * content_.chunk_elements + 7;
        toy_.asked->reset();
        pass("host", std::to_string(begin) + ":" + std::to_string(begin + 1000));
        kept += toy_.asked->requests == 0 ? 1 : 0;
        whole += toy_.asked->bytes > 4000 ? 1 : 0;
      }
      if (whole > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(whole, 0u);
    EXPECT_LT(kept, content_.chunks);
  }
}

// Otherwise every store that is opened would request and copy whole chunks for a cache that cannot keep them.
TEST_F(LocalRangesTest, AnotherStoreDoesNotMakeAFullCacheSeemEmpty) {
  constexpr std::size_t kSize = 20'000;
  cache::CacheOptions options;
  options.most_bytes = 100'000;
  CachedStoreInMemory toy = cached_store(directory_ / "full", testing::numbered_objects(20, kSize), options);
  const auto read_all = [&] {
    std::size_t hits = 0;
    for (int i = 0; i < 20; ++i) {
      const auto got = testing::read_range(*toy.store, std::to_string(i), 0, kSize);
      EXPECT_TRUE(support::same_bytes(got.bytes, support::pattern(kSize, static_cast<std::uint64_t>(i))));
      hits += got.cache == RangeCache::kHit ? 1 : 0;
    }
    toy.flush();
    return hits;
  };
  read_all();
  const auto disk = cache::DiskCache::open(toy.options).value();
  EXPECT_FALSE(disk->takes(kSize));
  toy.options.most_bytes = 10'000'000;
  EXPECT_EQ(cache::DiskCache::open(toy.options).value(), disk);
  EXPECT_TRUE(disk->takes(kSize)) << "other limits apply at once";
  read_all();
  EXPECT_EQ(read_all(), 20u);
  toy.options.policy = cache::CachePolicy::kRecent;
  toy.options.most_bytes = 100'000;
  EXPECT_TRUE(cache::DiskCache::open(toy.options).value()->takes(kSize)) << "it evicts";
}

// A change on the disk changes the file's times; the data is then read and verified as at first.
TEST_F(LocalRangesTest, ChangedFilesAreCheckedAgain) {
  for (const Layout layout : {Layout::kRaw, Layout::kShardedRaw}) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout);
    settle();
    EXPECT_GT(by_file(pass().stats), 0u);
    for (const std::string& path : segments()) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      for (std::uint64_t at = 64; at + 4096 < fs::file_size(path); at += 50'000) {
        file.seekp(static_cast<std::streamoff>(at + 1000));
        file.put('x');
      }
    }
    const ReadOutcome damaged = pass();
    EXPECT_GT(damaged.stats.cache_misses, 0u);
    EXPECT_GT(toy_.asked->requests, 0u);
    pass();
    for (const std::string& path : segments()) fs::resize_file(path, fs::file_size(path) / 2);
    pass();
    pass();
  }
}

TEST_F(LocalRangesTest, ReplacedObjectsAreReadAnew) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    open(layout);
    settle();
    EXPECT_GT(by_file(pass().stats), 0u);
    FlatArray other = content_;
    other.seed = content_.seed + 1;
    for (const auto& [key, bytes] : objects_of(other)) {
      if (key == content_.metadata_key()) continue;
      ASSERT_TRUE(toy_.origin->put(key, bytes).ok());
    }
    // Another session sees the new versions.
    toy_.reopen();
    array_ = std::make_unique<Array>(Array::open(Store::open(mapping_, toy_.store).value()).value());
    content_ = other;
    expected_ = other.expected();
    pass();
    toy_.flush();
    pass();
    pass();
  }
}

// Recording a segment's last use changes its times.
TEST_F(LocalRangesTest, AreNotUsedWithTheRecentPolicy) {
  cache::CacheOptions options = small_segments();
  options.policy = cache::CachePolicy::kRecent;
  open(Layout::kZstd, std::move(options));
  settle();
  const ReadOutcome again = pass();
  EXPECT_EQ(by_file(again.stats), 0u);
  EXPECT_EQ(again.stats.cache_bytes, again.stats.read_bytes);
}

// A segment removed during a read is read to its end: only its name is gone.
TEST_F(LocalRangesTest, RemovedSegmentsAreReadToTheirEnd) {
  open(Layout::kZstd);
  settle("host-staged");
  std::thread remover([&] {
    for (const std::string& path : segments()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      fs::remove(path);
    }
  });
  for (int i = 0; i < 6; ++i) pass(i % 2 == 0 ? "host" : "host-staged");
  remover.join();
  pass();
}

// A cache whose files cannot be read, or do not contain what it claims.
struct LyingCache final : ByteStore, cache::LocalRanges {
  LyingCache(testing::Objects objects, const std::string& path) : behind(std::move(objects), {.tells_version = true}) {
    auto opened = std::make_shared<os::OwnedDescriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    int error = 0;
    EXPECT_TRUE(os::identify(opened->get(), range.identity, error));
    range.fd = opened->get();
    range.file = std::move(opened);
    range.path = "/nowhere";
  }
  std::string url() const override { return behind.url(); }
  Status start(std::span<RangeRead* const> reads) override { return behind.start(reads); }
  void cancel(std::span<RangeRead* const> reads) noexcept override { behind.cancel(reads); }
  bool find_local(std::string_view key, std::string_view, std::uint64_t offset, std::uint64_t length,
                  cache::LocalRange& out) noexcept override {
    if (!sizes.contains(std::string(key))) return false;
    ++told;
    out = range;
    out.object_bytes = sizes[std::string(key)];
    out.bytes = std::min(length, out.object_bytes - std::min(offset, out.object_bytes));
    return true;
  }
  bool keeps_range(std::string_view key, std::uint64_t, std::uint64_t length) const noexcept override {
    return (key.size() + length) % 2 == 0;
  }
  testing::RangeStoreInMemory behind;
  cache::LocalRange range;
  std::map<std::string, std::uint64_t> sizes;
  std::atomic<std::size_t> told{0};
};

TEST_F(LocalRangesTest, UnreadableRecordsAreRequested) {
  const std::string path = directory_ / "short";
  std::ofstream(path) << "nothing much";
  for (const Layout layout : kLayouts) {
    const FlatArray content{.layout = layout, .chunks = 24, .chunk_elements = 5'000, .shard_chunks = 8};
    const testing::Objects objects = objects_of(content);
    const auto expected = content.expected();
    for (const char* engine : {"auto", "threads"}) {
      const Context context = make_mapping_context(engine);
      for (const char* device : {"host", "host-staged"}) {
        for (const auto& [selection, begin] :
             {std::pair<const char*, int>{"", 0}, {"10000:10100", 10'000}, {"1:119999", 1}}) {
          SCOPED_TRACE(std::string(testing::layout_name(layout)) + " " + device + " " + engine + " " + selection);
          auto store = std::make_shared<LyingCache>(objects, path);
          for (const auto& [key, bytes] : objects) {
            if (key != content.metadata_key()) store->sizes[key] = bytes.size();
          }
          const Array array = Array::open(Store::open(context, store).value()).value();
          const ReadOutcome got = read(array, content, device, selection);
          ASSERT_TRUE(got.status.ok()) << got.status.to_string();
          EXPECT_TRUE(std::equal(got.elements.begin(), got.elements.end(), expected.begin() + begin));
          EXPECT_GT(store->told, 0u);
          EXPECT_EQ(store->behind.in_flight, 0u);
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace
