// A disk cache returns only what the store behind it has confirmed. A second pass makes no request, other versions are
// never returned, and any fault of the directory counts as a miss.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "support/byte_store_testing.h"
#include "support/cached_store.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::pattern;
using testing::cached_store;
using testing::CachedAnswer;
using testing::CachedStoreInMemory;
using testing::FlatArray;
using testing::Layout;
using testing::numbered_objects;
using testing::objects_of;
using testing::RangeHabits;

namespace fs = std::filesystem;

class DiskCacheTest : public testing::ByteStoreTest {
 protected:
  std::string cache() const { return directory_ / "cache"; }
  std::vector<std::string> segments() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(cache())) {
      if (entry.path().extension() == ".hrseg" && entry.is_regular_file()) out.push_back(entry.path());
    }
    return out;
  }
  // Reads each whole object; returns how many came from the cache.
  static std::size_t read_all(const CachedStoreInMemory& toy, const testing::Objects& objects) {
    std::size_t hits = 0;
    for (const auto& [key, bytes] : objects) {
      const CachedAnswer got = testing::read_range(*toy.store, key, 0, bytes.size() + 10);
      EXPECT_TRUE(got.status.ok()) << key << got.status.to_string();
      EXPECT_TRUE(support::same_bytes(got.bytes, bytes)) << key;
      hits += got.cache == RangeCache::kHit ? 1 : 0;
    }
    return hits;
  }
  support::TempDir directory_;
};

TEST_F(DiskCacheTest, ASecondPassSendsNoRequests) {
  for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kShardedRaw, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    const FlatArray content{.layout = layout, .chunks = 83, .chunk_elements = 200, .shard_chunks = 9};
    CachedStoreInMemory toy = cached_store(cache() + testing::layout_name(layout), objects_of(content));
    const Array array = Array::open(Store::open(context_, toy.store).value()).value();
    const auto first = read(array, content);
    ASSERT_TRUE(first.status.ok()) << first.status.to_string();
    EXPECT_TRUE(first.elements == content.expected());
    EXPECT_EQ(first.stats.cache_bytes, 0u);
    EXPECT_EQ(first.stats.store_bytes, first.stats.read_bytes);
    EXPECT_GT(first.stats.cache_misses, 0u);
    toy.flush();
    toy.asked->reset();
    for (int pass = 0; pass < 2; ++pass) {
      const auto again = read(array, content);
      ASSERT_TRUE(again.status.ok()) << again.status.to_string();
      EXPECT_TRUE(again.elements == content.expected());
      EXPECT_EQ(again.stats.store_bytes, 0u);
      EXPECT_EQ(again.stats.cache_bytes, again.stats.read_bytes);
      EXPECT_GT(again.stats.cache_hits, 0u);
      EXPECT_EQ(again.stats.cache_misses, 0u);
      EXPECT_EQ(again.stats.path.substr(0, 10), "disk cache");
    }
    EXPECT_EQ(toy.asked->requests, 0u);
  }
}

TEST_F(DiskCacheTest, AbsentChunksAreNotRequestedAgain) {
  const FlatArray content{.chunks = 40};
  testing::Objects objects = objects_of(content);
  for (int i = 0; i < 40; i += 3) objects.erase(content.key(static_cast<std::uint64_t>(i)));
  CachedStoreInMemory toy = cached_store(cache(), objects);
  const Array array = Array::open(Store::open(context_, toy.store).value()).value();
  EXPECT_EQ(read(array, content).stats.missing_chunks, 14u);
  toy.flush();
  toy.asked->reset();
  EXPECT_EQ(read(array, content).stats.missing_chunks, 14u);
  EXPECT_EQ(toy.asked->requests, 0u);
  // A put through the cache is visible.
  const std::string key = content.key(3);
  ASSERT_TRUE(toy.store->put(key, content.encoded(3)).ok());
  EXPECT_EQ(read(array, content).stats.missing_chunks, 13u);
  // In another session each object is requested again.
  toy.origin->remove(key);
  toy.reopen();
  EXPECT_EQ(testing::read_range(*toy.store, key, 0, 10).status.code(), Code::kNotFound);
}

TEST_F(DiskCacheTest, ReopeningAChangedArrayReadsItAgain) {
  const FlatArray content{.chunks = 12};
  testing::Objects objects = objects_of(content);
  objects.erase(content.key(3));
  CachedStoreInMemory toy = cached_store(cache(), objects);
  const Store store = Store::open(context_, toy.store).value();
  EXPECT_EQ(read(Array::open(store).value(), content).stats.missing_chunks, 1u);
  toy.flush();
  // Another writer adds a chunk: it is seen once the array is opened again.
  ASSERT_TRUE(toy.origin->put(content.key(3), content.encoded(3)).ok());
  const Array array = Array::open(store).value();
  const auto again = read(array, content);
  EXPECT_EQ(again.stats.missing_chunks, 0u);
  EXPECT_TRUE(again.elements == content.expected());
  toy.flush();
  toy.asked->reset();
  EXPECT_TRUE(read(array, content).elements == content.expected());
  EXPECT_TRUE(read(Array::open(store).value(), content).elements == content.expected());
  EXPECT_LE(toy.asked->requests, 3u) << "the document alone, which says that nothing has changed";
}

TEST_F(DiskCacheTest, ALaterSessionRequestsOnlyVersions) {
  const auto objects = numbered_objects(20, 5000);
  CachedStoreInMemory toy = cached_store(cache(), objects);
  EXPECT_EQ(read_all(toy, objects), 0u);
  toy.flush();
  for (int session = 0; session < 2; ++session) {
    toy.reopen();
    toy.asked->reset();
    EXPECT_EQ(read_all(toy, objects), 20u);
    EXPECT_EQ(toy.asked->requests, 20u);
    EXPECT_EQ(toy.asked->bytes, 20u) << "one byte of each";
    EXPECT_EQ(read_all(toy, objects), 20u);
    EXPECT_EQ(toy.asked->requests, 20u);
  }
  // With CacheTrust::kStore, a new session makes only the one request that proves access to the store.
  toy.options.trust = cache::CacheTrust::kStore;
  toy.reopen();
  toy.asked->reset();
  EXPECT_EQ(read_all(toy, objects), 20u);
  EXPECT_EQ(toy.asked->requests, 1u);
}

TEST_F(DiskCacheTest, WithoutReadPermissionNothingIsServed) {
  const auto objects = numbered_objects(3, 1000);
  bool refuses = false;
  RangeHabits habits{.tells_version = true};
  habits.change = [&](RangeRead& read) {
    if (refuses) read.status = Status(Code::kPermission, Layer::kStore, "no");
  };
  CachedStoreInMemory toy = cached_store(cache(), objects, {}, habits);
  read_all(toy, objects);
  toy.flush();
  refuses = true;
  for (const auto trust : {cache::CacheTrust::kObject, cache::CacheTrust::kStore}) {
    toy.options.trust = trust;
    toy.reopen();
    for (const auto& [key, bytes] : objects) {
      EXPECT_EQ(testing::read_range(*toy.store, key, 0, bytes.size() + 10).status.code(), Code::kPermission);
    }
  }
}

TEST_F(DiskCacheTest, ChangedObjectsAreReadAnew) {
  for (const auto trust : {cache::CacheTrust::kObject, cache::CacheTrust::kStore}) {
    cache::CacheOptions options;
    options.trust = trust;
    auto objects = numbered_objects(10, 3000);
    CachedStoreInMemory toy = cached_store(cache() + std::to_string(static_cast<int>(trust)), objects, options);
    read_all(toy, objects);
    toy.flush();
    for (auto& [key, bytes] : objects) {
      bytes = pattern(bytes.size(), 1000 + bytes.size());
      // Bypasses the cache, as another writer does.
      ASSERT_TRUE(toy.origin->put(key, bytes).ok());
    }
    toy.options.trust = cache::CacheTrust::kObject;
    toy.reopen();
    EXPECT_EQ(read_all(toy, objects), 0u);
    toy.flush();
    EXPECT_EQ(read_all(toy, objects), 10u);
    // A request for the old version is answered by the store: it no longer exists.
    EXPECT_EQ(testing::read_range(*toy.store, "0", 0, 3010, "1").status.code(), Code::kAgainExhausted);
  }
}

// Bytes and version of an answer belong together, even if the object changes at the same time.
TEST_F(DiskCacheTest, VersionsAreNotConfused) {
  constexpr std::size_t kSize = 4000;
  for (const auto trust : {cache::CacheTrust::kObject, cache::CacheTrust::kStore}) {
    cache::CacheOptions options;
    options.trust = trust;
    options.max_age_ns = 1'000'000;
    // Version n contains pattern n.
    CachedStoreInMemory toy =
        cached_store(cache() + std::to_string(static_cast<int>(trust)), {{"x", pattern(kSize, 1)}}, options);
    std::atomic<bool> stop{false};
    std::atomic<std::size_t> hits{0};
    std::vector<std::thread> readers;
    for (unsigned seed = 0; seed < 3; ++seed) {
      readers.emplace_back([&, seed, store = toy.store] {
        std::mt19937 dice(seed);
        while (!stop) {
          const std::uint64_t offset = dice() % 4 * 1000;
          const CachedAnswer got = testing::read_range(*store, "x", offset, 1000);
          ASSERT_TRUE(got.status.ok()) << got.status.to_string();
          const auto whole = pattern(kSize, std::stoull(got.version));
          ASSERT_TRUE(support::same_bytes(got.bytes, std::span(whole).subspan(offset, 1000)));
          hits += got.cache == RangeCache::kHit ? 1 : 0;
        }
      });
    }
    for (std::uint64_t version = 2; version < 60; ++version) {
      ASSERT_TRUE(toy.origin->put("x", pattern(kSize, version)).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_GT(hits, 0u);
  }
}

TEST_F(DiskCacheTest, ObjectsWithoutVersionAreNotCached) {
  for (const bool tells_size : {false, true}) {
    const auto objects = numbered_objects(5, 1000);
    CachedStoreInMemory toy = cached_store(cache(), objects, {}, {.tells_size = tells_size});
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_EQ(read_all(toy, objects), 0u);
      toy.flush();
    }
    EXPECT_TRUE(segments().empty());
  }
}

TEST_F(DiskCacheTest, DocumentsAreAlwaysRequested) {
  testing::Objects objects;
  for (const char* name : {"zarr.json", "a/.zarray", "a/.zattrs", ".zgroup", ".zmetadata"}) objects[name] = pattern(99);
  CachedStoreInMemory toy = cached_store(cache(), objects);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(read_all(toy, objects), 0u);
  EXPECT_EQ(toy.asked->requests, 10u);
}

TEST_F(DiskCacheTest, RangesMatchTheRequest) {
  CachedStoreInMemory toy = cached_store(cache(), {{"x", pattern(1000)}, {"empty", {}}});
  const auto whole = pattern(1000);
  struct Asked {
    std::uint64_t offset;
    std::size_t size;
    bool from_end;
    std::size_t begin, bytes;
  };
  const Asked kAsked[] = {{0, 1000, false, 0, 1000},  {0, 999, false, 0, 999},    {1, 999, false, 1, 999},
                          {0, 100, true, 900, 100},   {0, 2000, true, 0, 1000},   {990, 100, false, 990, 10},
                          {1000, 10, false, 1000, 0}, {5000, 10, false, 1000, 0}, {0, 1, false, 0, 1}};
  for (const RangeCache expected : {RangeCache::kMiss, RangeCache::kHit}) {
    for (const Asked& asked : kAsked) {
      SCOPED_TRACE(::testing::Message() << asked.offset << " " << asked.size << " " << asked.from_end);
      const CachedAnswer got = testing::read_range(*toy.store, "x", asked.offset, asked.size, "", asked.from_end);
      ASSERT_TRUE(got.status.ok()) << got.status.to_string();
      EXPECT_EQ(got.cache, expected);
      EXPECT_TRUE(support::same_bytes(got.bytes, std::span(whole).subspan(asked.begin, asked.bytes)));
    }
    EXPECT_TRUE(testing::read_range(*toy.store, "empty", 0, 10).bytes.empty());
    EXPECT_TRUE(testing::read_range(*toy.store, "empty", 0, 10, "", true).bytes.empty());
    toy.flush();
  }
}

TEST_F(DiskCacheTest, OldVersionsAreRequestedAgain) {
  cache::CacheOptions options;
  options.max_age_ns = 1;
  const auto objects = numbered_objects(4, 500);
  CachedStoreInMemory toy = cached_store(cache(), objects, options);
  read_all(toy, objects);
  toy.flush();
  toy.asked->reset();
  EXPECT_EQ(read_all(toy, objects), 4u);
  EXPECT_EQ(toy.asked->requests, 4u);
  EXPECT_EQ(toy.asked->bytes, 4u);
}

TEST_F(DiskCacheTest, HalfTheRoomIsHalfTheHits) {
  const auto objects = numbered_objects(200, 10'000);
  cache::CacheOptions options;
  options.most_bytes = std::uint64_t{100} * 10'176;
  CachedStoreInMemory toy = cached_store(cache(), objects, options);
  std::mt19937 dice(1);
  std::vector<std::string> keys;
  for (const auto& object : objects) keys.push_back(object.first);
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::shuffle(keys.begin(), keys.end(), dice);
    std::size_t hits = 0;
    for (const std::string& key : keys) {
      const CachedAnswer got = testing::read_range(*toy.store, key, 0, 10'000);
      ASSERT_TRUE(support::same_bytes(got.bytes, objects.at(key)));
      hits += got.cache == RangeCache::kHit ? 1 : 0;
    }
    toy.flush();
    if (epoch > 0) {
      EXPECT_GE(hits, 95u);
      EXPECT_LE(hits, 100u);
    }
    const DiskCacheReport report = inspect_disk_cache(cache(), true).value();
    EXPECT_LE(report.file_bytes, options.most_bytes);
    EXPECT_EQ(report.damaged_records, 0u);
  }
}

TEST_F(DiskCacheTest, LeastRecentlyUsedIsEvicted) {
  const auto objects = numbered_objects(600, 20'000);
  cache::CacheOptions options;
  options.most_bytes = 6 << 20;
  options.policy = cache::CachePolicy::kRecent;
  CachedStoreInMemory toy = cached_store(cache(), objects, options);
  for (std::size_t i = 0; i < 600; ++i) {
    testing::read_range(*toy.store, std::to_string(i), 0, 20'000);
    if (i % 20 == 19) toy.flush();
  }
  EXPECT_LE(inspect_disk_cache(cache()).value().file_bytes, options.most_bytes);
  std::size_t late = 0, early = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    early += testing::read_range(*toy.store, std::to_string(i), 0, 20'000).cache == RangeCache::kHit ? 1 : 0;
    late += testing::read_range(*toy.store, std::to_string(599 - i), 0, 20'000).cache == RangeCache::kHit ? 1 : 0;
  }
  EXPECT_GT(late, 90u);
  EXPECT_EQ(early, 0u);
}

TEST_F(DiskCacheTest, SpaceOfReplacedObjectsIsReused) {
  auto objects = numbered_objects(150, 20'000);
  cache::CacheOptions options;
  options.most_bytes = 4 << 20;
  CachedStoreInMemory toy = cached_store(cache(), objects, options);
  for (std::uint64_t round = 0; round < 4; ++round) {
    for (auto& [key, bytes] : objects) {
      bytes = pattern(bytes.size(), 10'000 * round + std::stoull(key));
      ASSERT_TRUE(toy.origin->put(key, bytes).ok());
    }
    toy.reopen();
    EXPECT_EQ(read_all(toy, objects), 0u);
    toy.flush();
    EXPECT_GT(read_all(toy, objects), 40u) << round;
    EXPECT_LE(inspect_disk_cache(cache()).value().file_bytes, options.most_bytes);
  }
}

TEST_F(DiskCacheTest, DamagedFilesAreMisses) {
  const auto objects = numbered_objects(30, 3000);
  std::mt19937 dice(5);
  for (int round = 0; round < 12; ++round) {
    CachedStoreInMemory toy = cached_store(cache(), objects);
    read_all(toy, objects);
    toy.flush();
    const bool open = round % 2 != 0;
    if (!open) toy.store.reset();
    for (const std::string& name : segments()) {
      const auto size = static_cast<std::streamoff>(fs::file_size(name));
      if (round % 3 == 2) {
        fs::resize_file(name, static_cast<std::uintmax_t>(static_cast<std::streamoff>(dice()) % size));
        continue;
      }
      std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
      for (int i = 0; i < 10; ++i) {
        file.seekp(static_cast<std::streamoff>(dice()) % size);
        file.put(static_cast<char>(dice()));
      }
    }
    if (!open) toy.reopen();
    EXPECT_LE(read_all(toy, objects), 30u);
    toy.flush();
    EXPECT_GE(read_all(toy, objects), 15u) << "lost records are cached again";
    ASSERT_TRUE(clear_disk_cache(cache()).ok());
  }
}

TEST_F(DiskCacheTest, PlantedFilesHarmNobody) {
  const auto objects = numbered_objects(10, 2000);
  {
    CachedStoreInMemory toy = cached_store(cache(), objects);
    read_all(toy, objects);
  }
  const std::string real = segments().at(0);
  ASSERT_EQ(::mkfifo((cache() + "/1.hrseg").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", cache() + "/2.hrseg");
  fs::create_directory(cache() + "/3.hrseg");
  fs::create_symlink(real, cache() + "/4.hrseg");
  ASSERT_TRUE(support::write_file(cache() + "/5.hrseg", pattern(5000)));
  ASSERT_TRUE(support::write_file(cache() + "/6.hrseg", {}));
  { std::ofstream(cache() + "/7.hrseg"); }
  fs::resize_file(cache() + "/7.hrseg", std::uintmax_t{1} << 40);
  fs::copy_file(real, cache() + "/8.hrseg");
  const std::size_t before = support::open_descriptors();
  {
    CachedStoreInMemory toy = cached_store(cache(), objects);
    EXPECT_EQ(read_all(toy, objects), 10u);
    // While the cache is open.
    fs::copy_file(real, cache() + "/9.hrseg");
    ASSERT_TRUE(support::write_file(cache() + "/10.hrseg", pattern(500)));
    toy.flush();
    EXPECT_EQ(read_all(toy, objects), 10u);
    const DiskCacheReport report = inspect_disk_cache(cache(), true).value();
    EXPECT_EQ(report.damaged_records, 0u);
    for (const DiskCacheSegment& segment : report.segments) {
      EXPECT_EQ(segment.foreign, segment.name == "10.hrseg") << segment.name << ": others were removed at the start";
    }
  }
  EXPECT_EQ(support::open_descriptors(), before);
}

TEST_F(DiskCacheTest, NothingIsServedAfterTheSecretIsLost) {
  const auto objects = numbered_objects(10, 2000);
  { read_all(cached_store(cache(), objects), objects); }
  ASSERT_TRUE(support::write_file(cache() + "/secret", pattern(7)));
  CachedStoreInMemory toy = cached_store(cache(), objects);
  EXPECT_TRUE(segments().empty()) << "it could not be read again";
  EXPECT_EQ(read_all(toy, objects), 0u);
  toy.flush();
  EXPECT_EQ(read_all(toy, objects), 10u);
}

// The table of records is only a hint: the record itself must match.
TEST_F(DiskCacheTest, RecordsMatchOnlyTheirIdVersionAndSize) {
  // Finds two versions with the same tag.
  std::map<std::uint32_t, std::string> seen;
  std::string one, other;
  std::mt19937_64 dice(1);
  while (other.empty()) {
    std::string text = std::to_string(dice());
    const auto [found, fresh] = seen.try_emplace(cache::version_tag(text, 500), text);
    if (!fresh && found->second != text) {
      one = found->second;
      other = text;
    }
  }
  cache::CacheOptions options;
  options.directory = cache();
  const auto disk = cache::DiskCache::open(options).value();
  const store::Bytes bytes = pattern(500);
  const cache::CacheKey id{1, 2}, second{3, 4};
  store::Bytes out(500);
  cache::RecordHead head;
  const auto place = [&](const cache::CacheKey& of) {
    disk->offer(of, one, 500, bytes);
    disk->flush();
    return disk->find(of).value();
  };
  EXPECT_TRUE(disk->read(id, place(id), one, 500, out, head));
  EXPECT_TRUE(support::same_bytes(out, bytes));
  EXPECT_FALSE(disk->read(id, place(id), other, 500, out, head));
  EXPECT_FALSE(disk->find(id).has_value()) << "forgotten";
  EXPECT_FALSE(disk->read(id, place(id), one, 501, out, head));
  EXPECT_FALSE(disk->read(second, place(id), one, 500, out, head));
  EXPECT_FALSE(disk->read(id, place(id), one, 500, std::span(out).first(499), head));
  EXPECT_TRUE(disk->read(id, place(id), "", 0, out, head)) << "any version";
  EXPECT_EQ(head.version_text(), one);
}

TEST_F(DiskCacheTest, DirectoriesOfOthersAreRefused) {
  const auto open = [&](const std::string& path) {
    cache::CacheOptions options;
    options.directory = path;
    return cache::DiskCache::open(options).status();
  };
  EXPECT_TRUE(open(cache()).ok());
  struct stat about {};
  ASSERT_EQ(::stat(cache().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
  ASSERT_EQ(::chmod(cache().c_str(), 0777), 0);
  EXPECT_EQ(open(cache()).code(), Code::kPermission);
  EXPECT_EQ(inspect_disk_cache(cache()).status().code(), Code::kPermission);
  EXPECT_EQ(clear_disk_cache(cache()).status().code(), Code::kPermission);
  ASSERT_EQ(::chmod(cache().c_str(), 01777), 0);
  EXPECT_EQ(open(cache()).code(), Code::kPermission) << "sticky or not";
  ASSERT_EQ(::chmod(cache().c_str(), 0700), 0);
  // A folder shared by all users, like a scratch disk, must be sticky; otherwise anyone who can write there could
  // replace the cache.
  const std::string scratch = directory_ / "scratch";
  ASSERT_EQ(::mkdir(scratch.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(scratch.c_str(), 01777), 0);
  EXPECT_TRUE(open(scratch + "/mine").ok());
  ASSERT_EQ(::chmod(scratch.c_str(), 0777), 0);
  const Status replaceable = open(scratch + "/mine");
  EXPECT_EQ(replaceable.code(), Code::kPermission);
  EXPECT_NE(replaceable.to_string().find("scratch may be written by everybody"), std::string::npos)
      << replaceable.to_string();
  EXPECT_EQ(inspect_disk_cache(directory_ / "none").status().code(), Code::kNotFound);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(cache().c_str(), 12345, 12345), 0);
    EXPECT_EQ(open(cache()).code(), Code::kPermission);
    ASSERT_EQ(::chown(cache().c_str(), 0, 0), 0);
  }
}

TEST_F(DiskCacheTest, AReadOnlyDirectoryIsStillRead) {
  const auto objects = numbered_objects(10, 2000);
  { read_all(cached_store(cache(), objects), objects); }
  // Root can write everywhere, so the lock file is made unusable instead.
  ASSERT_EQ(::unlink((cache() + "/lock").c_str()), 0);
  fs::create_symlink("nowhere", cache() + "/lock");
  auto more = objects;
  more["new"] = pattern(700);
  CachedStoreInMemory toy = cached_store(cache(), more);
  EXPECT_EQ(read_all(toy, more), 10u);
  toy.flush();
  EXPECT_EQ(read_all(toy, more), 10u);
}

TEST_F(DiskCacheTest, ClearedWhileItIsOpen) {
  const auto objects = numbered_objects(10, 2000);
  CachedStoreInMemory toy = cached_store(cache(), objects);
  read_all(toy, objects);
  toy.flush();
  EXPECT_GT(clear_disk_cache(cache()).value(), 20'000u);
  EXPECT_TRUE(segments().empty());
  for (int pass = 0; pass < 3; ++pass) {
    read_all(toy, objects);
    toy.flush();
  }
  toy.reopen();
  const DiskCacheReport report = inspect_disk_cache(cache()).value();
  EXPECT_TRUE(report.in_use);
  EXPECT_LE(report.records, 10u);
}

TEST_F(DiskCacheTest, EveryReadEndsOnceWhenCancelled) {
  const auto objects = numbered_objects(40, 2000);
  RangeHabits habits{.delay = std::chrono::milliseconds(60'000), .tells_version = true};
  CachedStoreInMemory toy = cached_store(cache(), objects, {}, habits);
  struct Listener final : RangeListener {
    void done(std::span<RangeRead* const> reads) noexcept override { ended += reads.size(); }
    std::atomic<std::size_t> ended{0};
  } listener;
  std::vector<store::Bytes> memory(40, store::Bytes(2000));
  std::vector<RangeRead> reads(40);
  std::vector<std::string> keys(40);
  std::vector<RangeRead*> all;
  for (std::size_t i = 0; i < 40; ++i) {
    keys[i] = std::to_string(i);
    reads[i].key = keys[i];
    reads[i].out = memory[i];
    reads[i].listener = &listener;
    all.push_back(&reads[i]);
  }
  ASSERT_TRUE(toy.store->start(all).ok());
  EXPECT_EQ(listener.ended, 0u);
  toy.store->cancel(std::span(all).first(15));
  EXPECT_EQ(listener.ended, 15u);
  toy.store->cancel(all);
  EXPECT_EQ(listener.ended, 40u);
  toy.store->cancel(all);
  for (const RangeRead& read : reads) EXPECT_EQ(read.status.code(), Code::kCancelled);
  EXPECT_EQ(toy.origin->in_flight, 0u);
}

TEST_F(DiskCacheTest, ErrorsOfTheStoreArePassedOn) {
  RangeHabits habits{.tells_version = true};
  habits.refuse = [](std::span<RangeRead* const>) { return Status(Code::kIo, Layer::kStore, "not now"); };
  CachedStoreInMemory toy = cached_store(cache(), numbered_objects(3, 100), {}, habits);
  EXPECT_EQ(testing::read_range(*toy.store, "1", 0, 10).status.code(), Code::kIo);
}

TEST_F(DiskCacheTest, WrongAnswersAreNotKept) {
  const auto objects = numbered_objects(300, 400);
  testing::RandomLies lies(1, 3);
  RangeHabits habits{.tells_version = true};
  bool lying = true;
  habits.change = [&](RangeRead& read) {
    if (lying) lies.tell(read);
  };
  CachedStoreInMemory toy = cached_store(cache(), objects, {}, habits);
  for (const auto& object : objects) (void)testing::read_range(*toy.store, object.first, 0, 410);
  toy.flush();
  lying = false;
  toy.reopen();
  EXPECT_GT(read_all(toy, objects), 100u);
}

TEST_F(DiskCacheTest, WithoutMemoryForVersionsTheStoreIsRead) {
  const auto objects = numbered_objects(50, 400);
  CachedStoreInMemory toy = cached_store(cache(), objects);
  const auto memory = std::make_shared<base::MemoryBudget>(3000, "an option");
  toy.reopen(memory);
  for (int pass = 0; pass < 3; ++pass) {
    read_all(toy, objects);
    toy.flush();
  }
  EXPECT_LE(memory->used_bytes(), 3000u);
}

}  // namespace
}  // namespace headrace
