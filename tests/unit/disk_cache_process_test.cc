// A cache directory used by processes that are killed at any moment, run in pairs, fork, or have no disk space. Bytes
// are right or are requested again, and no space is lost for good.
//
// HEADRACE_CACHE_KILLS: how many processes are killed, instead of 200.
#include <gtest/gtest.h>
#include <headrace/disk_cache.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/fault.h"
#include "support/byte_store_testing.h"
#include "support/cached_store.h"
#include "support/child.h"
#include "support/http_server.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::cached_store;
using testing::CachedAnswer;
using testing::CachedStoreInMemory;
using testing::numbered_objects;

constexpr std::size_t kObjects = 60;

// Sizes from 0 to 30,000 bytes.
const testing::Objects& objects() {
  static const testing::Objects made = [] {
    testing::Objects out;
    for (std::size_t i = 0; i < kObjects; ++i) out[std::to_string(i)] = support::pattern(i * 503 % 30'011, i);
    return out;
  }();
  return made;
}

// Whether every answer is right; `hits` counts those from the cache.
bool reads_right(const CachedStoreInMemory& toy, std::size_t count, unsigned seed, std::size_t* hits = nullptr) {
  std::mt19937 dice(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = std::to_string(dice() % kObjects);
    const CachedAnswer got = testing::read_range(*toy.store, key, 0, 30'100);
    if (!got.status.ok() || !support::same_bytes(got.bytes, objects().at(key))) return false;
    if (hits != nullptr) *hits += got.cache == RangeCache::kHit ? 1 : 0;
  }
  return true;
}

class DiskCacheProcess : public ::testing::Test {
 protected:
  std::string cache() const { return directory_ / "cache"; }
  support::TempDir directory_;
};

TEST_F(DiskCacheProcess, IsConsistentAfterAKillAtAnyMoment) {
  const char* const given = std::getenv("HEADRACE_CACHE_KILLS");
  const int kills = given != nullptr ? std::atoi(given) : 200;
  cache::CacheOptions options;
  options.most_bytes = 8 << 20;
  std::mt19937 dice(1);
  (void)objects();
  int killed = 0;
  bool looked_at = false;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Some processes empty the directory first, so that there is something to write.
      if (i % 10 == 0) (void)clear_disk_cache(cache());
      const CachedStoreInMemory toy = cached_store(cache(), objects(), options);
      ::_exit(reads_right(toy, 1'000'000, static_cast<unsigned>(i)) ? 0 : 1);
    }
    ::usleep(static_cast<useconds_t>(1000 + dice() % 12'000));
    ::kill(child, SIGKILL);
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << "a wrong byte, after " << i << " kills";
    ++killed;
    if (i % 20 != 19) continue;
    const auto report = inspect_disk_cache(cache(), true);
    // On a slow machine, no process may have created the directory yet.
    if (!looked_at && !report.ok() && report.status().code() == Code::kNotFound) continue;
    looked_at = true;
    ASSERT_TRUE(report.ok()) << report.status().to_string();
    EXPECT_EQ(report->damaged_records, 0u);
    EXPECT_LE(report->file_bytes, options.most_bytes);
  }
  EXPECT_EQ(killed, kills);
  CachedStoreInMemory toy = cached_store(cache(), objects(), options);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_TRUE(reads_right(toy, 500, 7));
    toy.flush();
  }
  std::size_t hits = 0;
  EXPECT_TRUE(reads_right(toy, 500, 7, &hits));
  EXPECT_EQ(hits, 500u);
  toy.store.reset();
  const DiskCacheReport report = inspect_disk_cache(cache(), true).value();
  EXPECT_EQ(report.damaged_records, 0u);
  // Space with torn records of killed processes is reused by later ones.
  std::uint64_t torn = 0;
  for (const DiskCacheSegment& segment : report.segments) torn += segment.torn_bytes;
  EXPECT_LE(torn, 64'000u);
  EXPECT_LE(report.segments.size(), 20u);
}

// A torn end, as left by a kill during a write, is cut off, and writing continues from there.
TEST_F(DiskCacheProcess, ATornEndIsCutOff) {
  { EXPECT_TRUE(reads_right(cached_store(cache(), objects()), 20, 1)); }
  for (const std::size_t torn : {std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
    DiskCacheReport report = inspect_disk_cache(cache()).value();
    ASSERT_EQ(report.segments.size(), 1u);
    const std::uint64_t records = report.records;
    const std::string name = cache() + "/" + report.segments[0].name;
    {
      std::ofstream file(name, std::ios::app | std::ios::binary);
      const store::Bytes rest = support::pattern(torn);
      file.write(reinterpret_cast<const char*>(rest.data()), static_cast<std::streamsize>(torn));
    }
    report = inspect_disk_cache(cache()).value();
    EXPECT_EQ(report.segments[0].torn_bytes, torn);
    EXPECT_EQ(report.records, records);
    std::size_t hits = 0;
    { EXPECT_TRUE(reads_right(cached_store(cache(), objects()), 30, static_cast<unsigned>(torn), &hits)); }
    EXPECT_GT(hits, 0u);
    report = inspect_disk_cache(cache(), true).value();
    ASSERT_EQ(report.segments.size(), 1u);
    EXPECT_EQ(report.segments[0].torn_bytes, 0u);
    EXPECT_GT(report.records, records);
    EXPECT_EQ(report.damaged_records, 0u);
  }
}

TEST_F(DiskCacheProcess, ProcessesShareTheBudget) {
  cache::CacheOptions options;
  options.most_bytes = 1 << 20;
  pid_t children[3];
  for (unsigned i = 0; i < 3; ++i) {
    children[i] = ::fork();
    ASSERT_GE(children[i], 0);
    if (children[i] != 0) continue;
    // Each process has its own objects and writes slowly.
    base::arm_delay("cache.append", std::chrono::milliseconds(3));
    testing::Objects own;
    for (std::size_t k = 0; k < 60; ++k) own[std::to_string(i) + "-" + std::to_string(k)] = support::pattern(20'000, k);
    const CachedStoreInMemory toy = cached_store(cache(), own, options);
    bool right = true;
    for (const auto& [key, bytes] : own) {
      right = right && support::same_bytes(testing::read_range(*toy.store, key, 0, 20'000).bytes, bytes);
    }
    toy.flush();
    ::_exit(right ? 0 : 1);
  }
  for (const pid_t child : children) {
    int how = 0;
    while (::waitpid(child, &how, WNOHANG) == 0) {
      const auto report = inspect_disk_cache(cache());
      if (report.ok()) {
        EXPECT_LE(report->file_bytes, options.most_bytes);
      }
      ::usleep(500);
    }
    EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  }
  const DiskCacheReport report = inspect_disk_cache(cache(), true).value();
  EXPECT_LE(report.file_bytes, options.most_bytes);
  EXPECT_GT(report.file_bytes, options.most_bytes * 9 / 10);
}

TEST_F(DiskCacheProcess, TwoProcessesAtOnce) {
  cache::CacheOptions options;
  options.most_bytes = 64 << 20;
  (void)objects();
  pid_t children[2];
  for (int i = 0; i < 2; ++i) {
    children[i] = ::fork();
    ASSERT_GE(children[i], 0);
    if (children[i] == 0) {
      bool right = true;
      for (unsigned session = 0; session < 5; ++session) {
        const CachedStoreInMemory toy = cached_store(cache(), objects(), options);
        right = right && reads_right(toy, 300, session * 2 + static_cast<unsigned>(i));
      }
      ::_exit(right ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  }
  const CachedStoreInMemory toy = cached_store(cache(), objects(), options);
  std::size_t hits = 0;
  EXPECT_TRUE(reads_right(toy, 500, 3, &hits));
  EXPECT_EQ(hits, 500u);
  const DiskCacheReport report = inspect_disk_cache(cache(), true).value();
  EXPECT_EQ(report.damaged_records, 0u);
  EXPECT_LE(report.records, 2 * kObjects);
}

// Of two running processes, one finds what the other has read.
TEST_F(DiskCacheProcess, RecordsOfOtherProcessesAreFound) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  CachedStoreInMemory mine = cached_store(cache(), objects());
  EXPECT_EQ(support::in_child([&] {
              const CachedStoreInMemory toy = cached_store(cache(), objects());
              return reads_right(toy, 300, 1) ? 0 : 1;
            }),
            0);
  // The cache looks for new records a second after a miss; each object is requested once.
  bool found = false;
  for (std::size_t i = 0; i < kObjects && !found; ++i) {
    const CachedAnswer got = testing::read_range(*mine.store, std::to_string(i), 0, 30'100);
    ASSERT_TRUE(support::same_bytes(got.bytes, objects().at(std::to_string(i))));
    found = got.cache == RangeCache::kHit;
    if (i != 0) ::usleep(200'000);
  }
  EXPECT_TRUE(found);
}

TEST_F(DiskCacheProcess, AChildOpensItsOwn) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  CachedStoreInMemory toy = cached_store(cache(), objects());
  EXPECT_TRUE(reads_right(toy, 100, 1));
  toy.flush();
  EXPECT_EQ(support::in_child([&] {
              store::Bytes memory(10);
              RangeRead read;
              read.key = "1";
              read.out = memory;
              RangeRead* const one[] = {&read};
              if (toy.store->start(one).code() != Code::kForked) return 1;
              toy.store->cancel(one);
              const CachedStoreInMemory own = cached_store(cache(), objects());
              std::size_t hits = 0;
              return reads_right(own, 100, 1, &hits) && hits > 90 ? 0 : 2;
            }),
            0);
  EXPECT_TRUE(reads_right(toy, 100, 1));
}

TEST_F(DiskCacheProcess, ReadsContinueWithoutDiskSpace) {
  EXPECT_EQ(support::in_child([&] {
              const rlimit limit{200'000, 200'000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              const CachedStoreInMemory toy = cached_store(cache(), objects());
              for (unsigned pass = 0; pass < 3; ++pass) {
                if (!reads_right(toy, 200, pass)) return 2;
                toy.flush();
              }
              const DiskCacheReport report = inspect_disk_cache(cache(), true).value();
              if (report.damaged_records != 0 || report.file_bytes > 200'000) return 3;
              if (report.problem.empty() || report.dropped_records == 0) return 4;
              return report.records > 0 && report.hits > 0 ? 0 : 5;
            }),
            0);
  for (const std::uint64_t most : {std::uint64_t{1}, std::uint64_t{5000}}) {
    cache::CacheOptions options;
    options.most_bytes = most;
    const CachedStoreInMemory toy = cached_store(directory_ / std::to_string(most), objects(), options);
    for (unsigned pass = 0; pass < 2; ++pass) {
      EXPECT_TRUE(reads_right(toy, 200, pass));
      toy.flush();
    }
    EXPECT_LE(inspect_disk_cache(directory_ / std::to_string(most)).value().file_bytes, most);
  }
}

// An array on a server, opened by URL and options: the second pass makes no request.
class RemoteDiskCache : public testing::ByteStoreTest {
 protected:
  std::string cache() const { return directory_ / "cache"; }
  support::TempDir directory_;
  void SetUp() override {
    if (testing::remote_stores_under_test().empty()) GTEST_SKIP() << "this build has no libcurl";
  }
};

TEST_F(RemoteDiskCache, ASecondEpochOfAnArrayInABucketSendsNoRequests) {
  using testing::Layout;
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    const testing::FlatArray content{.layout = layout, .chunks = 40, .chunk_elements = 300, .shard_chunks = 8};
    testing::Objects served;
    for (const auto& [key, bytes] : testing::objects_of(content)) served["a/" + key] = bytes;
    served.erase("a/" + content.key(33));
    const bool sharded = content.sharded();
    testing::HttpServer server{testing::ObjectService(served, testing::ObjectStyle::kS3)};
    ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
    ::setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "of-a-test", 1);
    const StorageOption given[] = {{"cache_dir", cache()}};
    std::size_t asked = 0, again = 0;
    for (int session = 0; session < 2; ++session) {
      const auto store = Store::open(context_, "s3://bucket/a", given);
      ASSERT_TRUE(store.ok()) << store.status().to_string();
      const Array array = Array::open(*store).value();
      auto expected = content.expected();
      const auto begin = expected.begin() + std::ptrdiff_t{sharded ? 32 : 33} * 300;
      std::fill(begin, begin + std::ptrdiff_t{sharded ? 8 : 1} * 300, testing::kFillValue);
      for (int epoch = 0; epoch < 3; ++epoch) {
        const auto out = read(array, content);
        ASSERT_TRUE(out.status.ok()) << out.status.to_string();
        EXPECT_TRUE(out.elements == expected);
        if (epoch == 0) {
          cache::CacheOptions same;
          same.directory = cache();
          cache::DiskCache::open(same).value()->flush();
          asked = server.requests().size();
        }
      }
      again = server.requests().size();
      EXPECT_EQ(again, asked) << "session " << session;
    }
  }
}

TEST_F(RemoteDiskCache, ASecondPassSendsNoRequests) {
  testing::Objects served;
  for (int i = 0; i < 30; ++i) served["a/" + std::to_string(i)] = support::pattern(5000, static_cast<std::uint64_t>(i));
  testing::HttpServer server{testing::ObjectService(served)};
  const auto read_all = [&](store::Store& store) {
    for (int i = 0; i < 30; ++i) {
      const auto got = store.get(std::to_string(i), 10'000);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(*got, served.at("a/" + std::to_string(i)));
    }
    EXPECT_EQ(store.get("none", 100).status().code(), Code::kNotFound);
  };
  const StorageOption given[] = {{"cache_dir", cache()}, {"cache_bytes", "100M"}};
  const auto open = [&] { return store::open_store(server.url() + "/a", {nullptr, given}); };
  cache::CacheOptions same;
  same.directory = cache();
  {
    const auto store = open().value();
    read_all(*store);
    cache::DiskCache::open(same).value()->flush();
    const std::size_t asked = server.requests().size();
    EXPECT_EQ(asked, 31u);
    read_all(*store);
    EXPECT_EQ(server.requests().size(), asked);
  }
  {
    const std::size_t before = server.requests().size();
    const auto store = open().value();
    read_all(*store);
    const auto requests = server.requests();
    EXPECT_EQ(requests.size(), before + 31);
    for (std::size_t i = before; i + 1 < requests.size(); ++i) EXPECT_EQ(requests[i].header("range"), "bytes=0-0");
  }
  // The environment variable, and options that override it.
  ::setenv("HEADRACE_CACHE_DIR", (directory_ / "other").c_str(), 1);
  read_all(*store::open_store(server.url() + "/a").value());
  EXPECT_TRUE(std::filesystem::exists(directory_ / "other"));
  ::setenv("HEADRACE_CACHE_BYTES", "many", 1);
  EXPECT_NE(store::open_store(server.url() + "/a").status().message().find("HEADRACE_CACHE_BYTES"), std::string::npos);
  const StorageOption off[] = {{"cache_dir", "off"}};
  EXPECT_TRUE(store::open_store(server.url() + "/a", {nullptr, off}).ok());
  ::unsetenv("HEADRACE_CACHE_DIR");
  ::unsetenv("HEADRACE_CACHE_BYTES");
  const StorageOption wrong[] = {{"cache_dri", cache()}};
  EXPECT_NE(store::open_store(server.url() + "/a", {nullptr, wrong}).status().message().find("'cache_dir'"),
            std::string::npos);
}

TEST_F(RemoteDiskCache, ObjectsOfAnotherServerAreDistinct) {
  const StorageOption given[] = {{"cache_dir", cache()}};
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    // The same path, ETag and size, but other bytes.
    const store::Bytes bytes = support::pattern(3000, seed);
    testing::HttpServer server{[&](testing::HttpWire& wire, const testing::HttpRequest& request) {
      const bool one = request.header("range") == "bytes=0-0";
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), one ? 1 : bytes.size());
      wire.reply("206 Partial Content",
                 "ETag: \"same\"\r\nContent-Range: bytes 0-" + std::to_string(text.size() - 1) + "/3000\r\n", text);
    }};
    for (int pass = 0; pass < 2; ++pass) {
      const auto store = store::open_store(server.url() + "/a", {nullptr, given}).value();
      EXPECT_EQ(store->get("x", 3000).value(), bytes);
    }
  }
}

}  // namespace
}  // namespace headrace
