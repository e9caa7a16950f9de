// Reads of one process that want the same range at the same time make one request, whichever store they belong to. If
// the read that makes it is cancelled or fails, or its answer is not for the others, they make their own.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/disk_cache.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/document_name.h"
#include "support/byte_store_testing.h"
#include "support/cached_store.h"
#include "support/held_store.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::pattern;
using testing::cached_store;
using testing::CachedAnswer;
using testing::CachedStoreInMemory;
using testing::FlatArray;
using testing::HeldStore;
using testing::numbered_objects;
using testing::objects_of;
using testing::OneRead;
using testing::RangeHabits;

constexpr std::size_t kSize = 3000;
constexpr auto kSoon = std::chrono::milliseconds(50);  // enough for a read to be put to wait; no test relies on it

// How often each range was requested.
class AskedTimes {
 public:
  void note(const RangeRead& read) {
    std::lock_guard lock(mutex_);
    ++times_[std::string(read.key) + " " + std::to_string(read.offset) + "+" + std::to_string(read.out.size())];
  }
  std::map<std::string, int> times() {
    std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> times_;  // guarded by mutex_
};

class SharedFetchTest : public testing::ByteStoreTest {
 protected:
  std::string cache() const { return directory_ / "cache"; }
  cache::CacheOptions options() const {
    cache::CacheOptions out;
    out.directory = cache();
    return out;
  }
  static std::shared_ptr<ByteStore> cached(std::shared_ptr<ByteStore> origin, const cache::CacheOptions& options) {
    return cache::make_cached_ranges(std::move(origin), "toy://held", options, nullptr).value();
  }
  std::shared_ptr<ByteStore> cached(std::shared_ptr<ByteStore> origin) const {
    return cached(std::move(origin), options());
  }
  DiskCacheReport report() const {
    cache::DiskCache::open(options()).value()->flush();
    return inspect_disk_cache(cache(), true).value();
  }
  support::TempDir directory_;
  const store::Bytes whole_ = pattern(kSize);
};

TEST_F(SharedFetchTest, ThreadsThatReadTheSameRangesFetchEachOnce) {
  constexpr unsigned kThreads = 8;
  const auto objects = numbered_objects(60, 20'000);
  AskedTimes asked;
  RangeHabits habits{.delay = std::chrono::milliseconds(2), .tells_version = true};
  habits.change = [&](RangeRead& read) { asked.note(read); };
  CachedStoreInMemory toy = cached_store(cache(), objects, {}, habits);
  std::atomic<std::size_t> hits{0}, misses{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      // Some threads follow closely; others come from the other side.
      for (std::size_t k = 0; k < 60; ++k) {
        const std::string key = std::to_string(i % 4 == 3 ? 59 - k : k);
        const CachedAnswer got = testing::read_range(*toy.store, key, 0, 20'000);
        ASSERT_TRUE(got.status.ok()) << got.status.to_string();
        ASSERT_TRUE(support::same_bytes(got.bytes, objects.at(key)));
        ASSERT_EQ(got.version, "1");
        (got.cache == RangeCache::kHit ? hits : misses) += 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(asked.times().size(), 60u);
  for (const auto& [range, times] : asked.times()) EXPECT_EQ(times, 1) << range;
  EXPECT_EQ(misses, 60u);
  EXPECT_EQ(hits, 60u * (kThreads - 1));
  const DiskCacheReport after = report();
  EXPECT_EQ(after.records, 60u);
  EXPECT_EQ(after.added_records, 60u);
  EXPECT_EQ(after.dropped_records, 0u);
  EXPECT_EQ(after.damaged_records, 0u);
}

// As a loader and a read that open the same URL.
TEST_F(SharedFetchTest, StoresThatAreOpenedSeparatelyShareFetches) {
  const FlatArray content{.chunks = 40, .chunk_elements = 900};
  for (const auto trust : {cache::CacheTrust::kObject, cache::CacheTrust::kStore}) {
    AskedTimes asked;
    RangeHabits habits{.delay = std::chrono::milliseconds(3), .tells_version = true};
    habits.change = [&](RangeRead& read) { asked.note(read); };
    cache::CacheOptions of = options();
    of.directory += std::to_string(static_cast<int>(trust));
    of.trust = trust;
    const auto origin = std::make_shared<testing::RangeStoreInMemory>(objects_of(content), habits);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const Context context = make_context(2);
        const auto opened = Array::open(Store::open(context, cached(origin, of)).value());
        ASSERT_TRUE(opened.ok());
        for (int pass = 0; pass < 2; ++pass) {
          const auto out = read(*opened, content);
          ASSERT_TRUE(out.status.ok()) << out.status.to_string();
          EXPECT_TRUE(out.elements == content.expected());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // With CacheTrust::kObject each store asks which version it may read: one byte.
    std::size_t chunks = 0;
    for (const auto& [range, times] : asked.times()) {
      if (base::is_zarr_document(range.substr(0, range.find(' ')))) continue;
      const bool question = range.ends_with("+1");
      EXPECT_LE(times, question ? 2 : 1) << range;
      chunks += question ? 0 : 1;
    }
    EXPECT_EQ(chunks, 40u);
  }
}

TEST_F(SharedFetchTest, AnotherStoreGetsOnlyWhatItsServerLetsItRead) {
  const auto first = std::make_shared<HeldStore>(), second = std::make_shared<HeldStore>();
  const auto one = cached(first), other = cached(second);
  OneRead leader("x", 0, kSize), denied("x", 0, kSize), older("x", 0, kSize);
  ASSERT_TRUE(leader.start(*one).ok());
  ASSERT_TRUE(denied.start(*other).ok());
  ASSERT_TRUE(second->reaches(1)) << "it asks for the version";
  EXPECT_TRUE(second->fail(Code::kPermission));
  ASSERT_TRUE(denied.ends());
  EXPECT_EQ(denied.answer().status.code(), Code::kPermission);
  // Its server has another version than the leader's: it must read that one.
  ASSERT_TRUE(older.start(*other).ok());
  ASSERT_TRUE(second->reaches(2));
  EXPECT_TRUE(second->answer(whole_, "old"));
  std::this_thread::sleep_for(kSoon);
  EXPECT_TRUE(first->answer(whole_, "new"));
  ASSERT_TRUE(leader.ends());
  ASSERT_TRUE(second->reaches(3));
  EXPECT_TRUE(second->answer(pattern(kSize, 5), "old"));
  ASSERT_TRUE(older.ends());
  EXPECT_EQ(older.answer().found_version, "old");
  EXPECT_EQ(older.bytes(), pattern(kSize, 5));
  EXPECT_EQ(first->requests(), 1u);
}

TEST_F(SharedFetchTest, IfTheFirstIsCancelledOneOfTheOthersFetches) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead first("x", 0, kSize), second("x", 0, kSize), third("x", 0, kSize);
  ASSERT_TRUE(first.start(*store).ok());
  ASSERT_TRUE(second.start(*store).ok());
  ASSERT_TRUE(third.start(*store).ok());
  std::this_thread::sleep_for(kSoon);
  EXPECT_EQ(origin->requests(), 1u);
  first.cancel(*store);
  ASSERT_TRUE(first.ends());
  EXPECT_EQ(first.answer().status.code(), Code::kCancelled);
  ASSERT_TRUE(origin->reaches(2));
  std::this_thread::sleep_for(kSoon);
  EXPECT_EQ(origin->requests(), 2u);
  EXPECT_TRUE(origin->answer(whole_, "1"));
  for (OneRead* const read : {&second, &third}) {
    ASSERT_TRUE(read->ends());
    EXPECT_EQ(read->bytes(), whole_);
    EXPECT_EQ(read->answer().found_version, "1");
  }
  EXPECT_EQ(origin->requests(), 2u);
}

TEST_F(SharedFetchTest, IfTheFirstFailsTheOthersFetchForThemselves) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead first("x", 0, kSize), second("x", 0, kSize), third("x", 0, kSize);
  ASSERT_TRUE(first.start(*store).ok());
  ASSERT_TRUE(second.start(*store).ok());
  ASSERT_TRUE(third.start(*store).ok());
  std::this_thread::sleep_for(kSoon);
  EXPECT_TRUE(origin->fail(Code::kIo));
  ASSERT_TRUE(first.ends());
  EXPECT_EQ(first.answer().status.code(), Code::kIo);
  ASSERT_TRUE(origin->reaches(3)) << "both at once: an error of one is not waited for by the other";
  EXPECT_TRUE(origin->answer(whole_, "1"));
  EXPECT_TRUE(origin->fail(Code::kPermission));
  ASSERT_TRUE(second.ends());
  ASSERT_TRUE(third.ends());
  const bool second_got = second.answer().status.ok();
  EXPECT_EQ((second_got ? second : third).bytes(), whole_);
  EXPECT_EQ((second_got ? third : second).answer().status.code(), Code::kPermission);
}

TEST_F(SharedFetchTest, AStartThatFailsLeavesNobodyWaiting) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead first("x", 0, kSize), second("x", 0, kSize);
  std::atomic<int> refusals{1};
  origin->refuse = [&]() -> Status {
    if (refusals.fetch_sub(1) != 1) return {};
    EXPECT_TRUE(second.start(*store).ok());
    std::this_thread::sleep_for(kSoon);
    return Status(Code::kIo, Layer::kStore, "not now");
  };
  EXPECT_EQ(first.start(*store).code(), Code::kIo);
  ASSERT_TRUE(origin->reaches(1));
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(second.ends());
  EXPECT_EQ(second.bytes(), whole_);
  EXPECT_EQ(first.times(), 0);
}

TEST_F(SharedFetchTest, AWaitingReadIsCancelledAtOnce) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead first("x", 0, kSize), second("x", 0, kSize), third("x", 0, kSize), fourth("x", 0, kSize);
  for (OneRead* const read : {&first, &second, &third, &fourth}) ASSERT_TRUE(read->start(*store).ok());
  std::this_thread::sleep_for(kSoon);
  third.cancel(*store);
  ASSERT_TRUE(third.ends());
  EXPECT_EQ(third.answer().status.code(), Code::kCancelled);
  fourth.cancel(*store);
  ASSERT_TRUE(fourth.ends());
  EXPECT_FALSE(second.ends_within(std::chrono::milliseconds(1)));
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(second.ends());
  EXPECT_EQ(second.bytes(), whole_);
  EXPECT_EQ(origin->requests(), 1u);
  for (OneRead* const read : {&first, &second, &third, &fourth}) EXPECT_EQ(read->times(), 1);
}

TEST_F(SharedFetchTest, ReadsOfAVersionGetOnlyThatVersion) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead first("x", 0, kSize), same("x", 0, kSize, "1"), other("x", 0, kSize, "0");
  for (OneRead* const read : {&first, &same, &other}) ASSERT_TRUE(read->start(*store).ok());
  std::this_thread::sleep_for(kSoon);
  EXPECT_EQ(origin->requests(), 1u);
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(same.ends());
  EXPECT_EQ(same.bytes(), whole_);
  ASSERT_TRUE(origin->reaches(2));
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(other.ends());
  EXPECT_EQ(other.answer().status.code(), Code::kAgainExhausted) << "the answer of the store stands";
  // Two reads that want different versions do not wait for each other.
  OneRead third("y", 0, kSize, "1"), fourth("y", 0, kSize, "2");
  ASSERT_TRUE(third.start(*store).ok());
  ASSERT_TRUE(fourth.start(*store).ok());
  ASSERT_TRUE(origin->reaches(4));
  while (origin->answer(whole_, "2")) {
  }
  ASSERT_TRUE(third.ends());
  ASSERT_TRUE(fourth.ends());
  EXPECT_EQ(third.answer().status.code(), Code::kAgainExhausted);
  EXPECT_EQ(fourth.bytes(), whole_);
}

TEST_F(SharedFetchTest, AnAbsentObjectIsAskedForOnce) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead first("x", 0, kSize), second("x", 0, kSize), later("x", 0, kSize);
  ASSERT_TRUE(first.start(*store).ok());
  ASSERT_TRUE(second.start(*store).ok());
  std::this_thread::sleep_for(kSoon);
  EXPECT_TRUE(origin->fail(Code::kNotFound));
  ASSERT_TRUE(second.ends());
  ASSERT_TRUE(later.start(*store).ok());
  ASSERT_TRUE(later.ends());
  for (OneRead* const read : {&first, &second, &later}) EXPECT_EQ(read->answer().status.code(), Code::kNotFound);
  EXPECT_EQ(origin->requests(), 1u);
}

// Such objects are not cached: a read must see the bytes that are there when it begins.
TEST_F(SharedFetchTest, WithoutVersionsEachReadHasARequestOfItsOwn) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead first("x", 0, kSize), second("x", 0, kSize);
  ASSERT_TRUE(first.start(*store).ok());
  ASSERT_TRUE(second.start(*store).ok());
  ASSERT_TRUE(origin->reaches(1));
  EXPECT_TRUE(origin->answer(whole_, ""));
  ASSERT_TRUE(origin->reaches(2));
  EXPECT_TRUE(origin->answer(pattern(kSize, 9), ""));
  ASSERT_TRUE(second.ends());
  EXPECT_EQ(second.bytes(), pattern(kSize, 9));
  // From now on nobody waits in vain.
  OneRead third("x", 0, kSize), fourth("x", 0, kSize);
  ASSERT_TRUE(third.start(*store).ok());
  ASSERT_TRUE(fourth.start(*store).ok());
  ASSERT_TRUE(origin->reaches(4));
  while (origin->answer(whole_, "")) {
  }
  ASSERT_TRUE(third.ends());
  ASSERT_TRUE(fourth.ends());
}

TEST_F(SharedFetchTest, AReadAfterAChangeDoesNotWaitForAnOlderRequest) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead before("x", 0, kSize), after("x", 0, kSize);
  ASSERT_TRUE(before.start(*store).ok());
  ASSERT_TRUE(store->put("x", whole_).ok());
  ASSERT_TRUE(after.start(*store).ok());
  ASSERT_TRUE(origin->reaches(2));
  EXPECT_TRUE(origin->answer(pattern(kSize, 9), "1"));
  EXPECT_TRUE(origin->answer(whole_, "2"));
  ASSERT_TRUE(before.ends());
  ASSERT_TRUE(after.ends());
  EXPECT_EQ(after.bytes(), whole_);
  // An array is opened again, and its document has changed: its chunks may have changed, too.
  OneRead opened(".zarray", 0, kSize), chunk("y", 0, kSize), reopened(".zarray", 0, kSize), again("y", 0, kSize);
  ASSERT_TRUE(opened.start(*store).ok());
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(chunk.start(*store).ok());
  ASSERT_TRUE(origin->reaches(4));
  EXPECT_EQ(origin->requests(), 4u);
  ASSERT_TRUE(reopened.start(*store).ok());
  EXPECT_TRUE(origin->answer_last(pattern(kSize, 3), "2"));
  ASSERT_TRUE(reopened.ends());
  ASSERT_TRUE(again.start(*store).ok());
  ASSERT_TRUE(origin->reaches(6)) << "not the request from before the change";
  EXPECT_TRUE(origin->answer(pattern(kSize, 9), "1"));
  EXPECT_TRUE(origin->answer(whole_, "2"));
  ASSERT_TRUE(chunk.ends());
  ASSERT_TRUE(again.ends());
  EXPECT_EQ(again.bytes(), whole_);
}

TEST_F(SharedFetchTest, AFullCacheStillSharesFetches) {
  cache::CacheOptions tiny = options();
  tiny.most_bytes = 1;
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin, tiny);
  // The first answer tells the cache that it has no room.
  for (int i = 0; i < 3; ++i) {
    const std::string key = std::to_string(i);
    std::vector<std::unique_ptr<OneRead>> reads;
    for (int k = 0; k < 7; ++k) {
      reads.push_back(std::make_unique<OneRead>(key, 0, kSize));
      ASSERT_TRUE(reads.back()->start(*store).ok());
    }
    std::this_thread::sleep_for(kSoon);
    EXPECT_TRUE(origin->answer(whole_, "1"));
    for (const auto& read : reads) {
      ASSERT_TRUE(read->ends());
      EXPECT_EQ(read->bytes(), whole_);
    }
    EXPECT_EQ(origin->requests(), static_cast<std::size_t>(i) + 1);
    cache::DiskCache::open(tiny).value()->flush();
  }
  EXPECT_EQ(inspect_disk_cache(cache()).value().records, 0u);
}

// More reads wait than the cache has threads; it still serves what it has.
TEST_F(SharedFetchTest, WaitingReadsOccupyNoThread) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead there("there", 0, kSize);
  ASSERT_TRUE(there.start(*store).ok());
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(there.ends());
  EXPECT_EQ(report().records, 1u);
  std::vector<std::unique_ptr<OneRead>> waiting;
  for (int i = 0; i < 30; ++i) {
    waiting.push_back(std::make_unique<OneRead>("x", 0, kSize));
    ASSERT_TRUE(waiting.back()->start(*store).ok());
  }
  std::this_thread::sleep_for(kSoon);
  OneRead again("there", 0, kSize);
  ASSERT_TRUE(again.start(*store).ok());
  ASSERT_TRUE(again.ends());
  EXPECT_EQ(again.answer().cache, RangeCache::kHit);
  EXPECT_EQ(origin->requests(), 2u);
  EXPECT_TRUE(origin->answer(whole_, "1"));
  for (const auto& read : waiting) ASSERT_TRUE(read->ends());
}

TEST_F(SharedFetchTest, OneQuestionForTheVersionServesAllRangesOfAnObject) {
  const auto objects = numbered_objects(1, 64'000);
  for (const bool has_memory : {true, false}) {
    CachedStoreInMemory toy = cached_store(cache(), objects);
    for (std::uint64_t i = 0; i < 16; ++i) (void)testing::read_range(*toy.store, "0", i * 4000, 4000);
    toy.flush();
    const auto origin = std::make_shared<HeldStore>();
    const auto memory = has_memory ? nullptr : std::make_shared<base::MemoryBudget>(1, "an option");
    const auto store = cache::make_cached_ranges(origin, "toy://objects", toy.options, memory).value();
    std::vector<std::unique_ptr<OneRead>> reads;
    for (std::uint64_t i = 0; i < 16; ++i) {
      reads.push_back(std::make_unique<OneRead>("0", i * 4000, 4000));
      ASSERT_TRUE(reads.back()->start(*store).ok());
    }
    std::this_thread::sleep_for(kSoon);
    EXPECT_EQ(origin->requests(), 1u);
    EXPECT_TRUE(origin->answer(objects.at("0"), "1"));
    // Without memory for the answer, the others ask, too.
    if (!has_memory) {
      ASSERT_TRUE(origin->reaches(16));
      while (origin->answer(objects.at("0"), "1")) {
      }
    }
    for (std::size_t i = 0; i < 16; ++i) {
      ASSERT_TRUE(reads[i]->ends());
      EXPECT_EQ(reads[i]->answer().cache, RangeCache::kHit);
      EXPECT_TRUE(support::same_bytes(reads[i]->bytes(), std::span(objects.at("0")).subspan(i * 4000, 4000)));
    }
    EXPECT_EQ(origin->requests(), has_memory ? 1u : 16u);
  }
}

// Anything at once: two stores, cancelled reads, lies, and objects that change. Each read ends once, and bytes match
// their version.
TEST_F(SharedFetchTest, EveryReadEndsOnceWithTheBytesOfItsVersion) {
  constexpr std::size_t kKeys = 6;
  testing::RandomLies lies(3, 11);
  RangeHabits habits{.delay = std::chrono::microseconds(200), .tells_version = true};
  std::mutex mutex;
  std::map<std::string, store::Bytes> written;  // by key and version; guarded by mutex
  std::atomic<bool> lying{true};
  habits.change = [&](RangeRead& read) {
    if (read.status.ok() && lying && read.out.size() != kSize) lies.tell(read);
  };
  testing::Objects objects;
  for (std::size_t i = 0; i < kKeys; ++i) objects[std::to_string(i)] = pattern(kSize, i);
  const auto origin = std::make_shared<testing::RangeStoreInMemory>(objects, habits);
  cache::CacheOptions of = options();
  of.max_age_ns = 3'000'000;
  const auto one = cached(origin, of), other = cached(origin, of);
  std::vector<std::thread> threads;
  std::atomic<std::size_t> good{0};
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 dice(seed);
      for (int round = 0; round < 60; ++round) {
        std::vector<std::unique_ptr<OneRead>> reads;
        std::vector<std::size_t> keys;
        ByteStore& store = dice() % 2 == 0 ? *one : *other;
        for (int i = 0; i < 12; ++i) {
          keys.push_back(dice() % kKeys);
          reads.push_back(std::make_unique<OneRead>(std::to_string(keys.back()), 0, kSize - dice() % 2));
          ASSERT_TRUE(reads.back()->start(store).ok());
        }
        for (auto& read : reads) {
          if (dice() % 3 == 0) read->cancel(store);
        }
        if (dice() % 8 == 0) {
          const std::string key = std::to_string(dice() % kKeys);
          ASSERT_TRUE(store.put(key, pattern(kSize, std::stoull(key))).ok());
        }
        for (std::size_t i = 0; i < reads.size(); ++i) {
          ASSERT_TRUE(reads[i]->ends());
          ASSERT_EQ(reads[i]->times(), 1);
          const RangeRead& answer = reads[i]->answer();
          if (!answer.status.ok() || answer.out.size() != kSize) continue;
          ASSERT_TRUE(support::same_bytes(reads[i]->bytes(), pattern(kSize, keys[i])));
          ++good;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(good, 500u);
  EXPECT_EQ(origin->in_flight, 0u);
}

// Arrays on a server, read by several threads through one store and through stores of their own.
TEST_F(SharedFetchTest, AServerIsAskedOnceForEachChunk) {
  if (testing::remote_stores_under_test().empty()) GTEST_SKIP() << "this build has no libcurl";
  const FlatArray content{.chunks = 30, .chunk_elements = 2000};
  testing::Objects served;
  for (const auto& [key, bytes] : objects_of(content)) served["a/" + key] = bytes;
  for (const bool own_stores : {false, true}) {
    testing::ObjectService service(served);
    testing::HttpServer server{[&](testing::HttpWire& wire, const testing::HttpRequest& request) {
      wire.pause(5);
      service.answer(wire, request);
    }};
    const StorageOption given[] = {{"cache_dir", cache() + (own_stores ? "2" : "1")}};
    const auto open = [&] { return Store::open(context_, server.url() + "/a", given).value(); };
    const Store shared = open();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto out = read(Array::open(own_stores ? open() : shared).value(), content);
        ASSERT_TRUE(out.status.ok()) << out.status.to_string();
        EXPECT_TRUE(out.elements == content.expected());
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::map<std::string, int> times;
    for (const testing::HttpRequest& request : server.requests()) {
      const bool document = base::is_zarr_document(request.path);
      const bool question = request.header("range") == "bytes=0-0";
      if (question) {
        EXPECT_TRUE(own_stores) << request.path;
      } else if (!document) {
        ++times[request.path];
      }
    }
    EXPECT_EQ(times.size(), 30u);
    for (const auto& [path, count] : times) EXPECT_EQ(count, 1) << path;
  }
}

}  // namespace
}  // namespace headrace
