// Shared fetches in disturbed processes: forks, signals, few descriptors, killed processes, cache directories that
// others change, stores that are closed early, and crowds of waiting reads. Each read ends once, with right bytes or an
// error.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/disk_cache.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/byte_store_testing.h"
#include "support/cached_store.h"
#include "support/child.h"
#include "support/held_store.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using support::pattern;
using testing::cached_store;
using testing::CachedAnswer;
using testing::CachedStoreInMemory;
using testing::HeldStore;
using testing::numbered_objects;
using testing::OneRead;
using testing::RangeHabits;

constexpr std::size_t kSize = 3000;

// Many reads of one range, each into its own memory.
class Crowd final : private RangeListener {
 public:
  Crowd(std::size_t count, std::string key, std::size_t size) : key_(std::move(key)), size_(size), reads_(count) {
    memory_.resize(count * size);
    for (std::size_t i = 0; i < count; ++i) {
      RangeRead& read = reads_[i];
      read.key = key_;
      read.out = std::span(memory_).subspan(i * size, size);
      read.listener = this;
      pointers_.push_back(&read);
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() = default;

  std::span<RangeRead* const> all() const { return pointers_; }
  bool ends(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ended_ >= count; });
  }
  std::size_t ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  std::size_t count_of(Code code) const {
    std::size_t count = 0;
    for (const RangeRead& read : reads_) count += read.status.code() == code ? 1 : 0;
    return count;
  }
  std::size_t right(std::span<const std::byte> bytes) const {
    std::size_t count = 0;
    for (const RangeRead& read : reads_) {
      count += read.status.ok() && support::same_bytes(read.out.first(read.bytes), bytes) ? 1 : 0;
    }
    return count;
  }

 private:
  void done(std::span<RangeRead* const> reads) noexcept override {
    std::lock_guard lock(mutex_);
    ended_ += reads.size();
    changed_.notify_all();
  }

  const std::string key_;
  const std::size_t size_;
  store::Bytes memory_;
  std::vector<RangeRead> reads_;
  std::vector<RangeRead*> pointers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ended_ = 0;  // guarded by mutex_
};

class SharedFetchCrowd : public testing::ByteStoreTest {
 protected:
  std::string cache() const { return directory_ / "cache"; }
  cache::CacheOptions options() const {
    cache::CacheOptions out;
    out.directory = cache();
    return out;
  }
  std::shared_ptr<ByteStore> cached(std::shared_ptr<ByteStore> origin, const std::string& identity = "toy://held") {
    return cache::make_cached_ranges(std::move(origin), identity, options(), nullptr).value();
  }
  support::TempDir directory_;
  const store::Bytes whole_ = pattern(kSize);
};

constexpr std::size_t kCrowd = 100'000;

TEST_F(SharedFetchCrowd, AllGetTheAnswerOfOneRequest) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  Crowd crowd(kCrowd, "x", 16);
  ASSERT_TRUE(store->start(crowd.all()).ok());
  EXPECT_EQ(origin->requests(), 1u);
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(crowd.ends(kCrowd));
  EXPECT_EQ(crowd.right(std::span(whole_).first(16)), kCrowd);
  EXPECT_EQ(origin->requests(), 1u);
}

TEST_F(SharedFetchCrowd, AllAreCancelledAtOnce) {
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  Crowd crowd(kCrowd, "x", 16);
  ASSERT_TRUE(store->start(crowd.all()).ok());
  store->cancel(crowd.all());
  ASSERT_TRUE(crowd.ends(kCrowd));
  EXPECT_EQ(crowd.count_of(Code::kCancelled), kCrowd);
  OneRead later("x", 0, kSize);
  ASSERT_TRUE(later.start(*store).ok());
  while (!later.ends_within(std::chrono::milliseconds(1))) (void)origin->answer(whole_, "1");
  EXPECT_EQ(later.bytes(), whole_);
}

// From the newest to the oldest, which leads, and then in any order while the answer arrives.
TEST_F(SharedFetchCrowd, EachIsCancelledAlone) {
  constexpr std::size_t kFew = 1000;
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  Crowd crowd(kFew, "x", 16);
  ASSERT_TRUE(store->start(crowd.all()).ok());
  for (std::size_t i = kFew; i-- > 0;) store->cancel(crowd.all().subspan(i, 1));
  ASSERT_TRUE(crowd.ends(kFew));
  EXPECT_EQ(crowd.count_of(Code::kCancelled), kFew);
  Crowd other(kFew, "y", 16);
  ASSERT_TRUE(store->start(other.all()).ok());
  std::thread answers([&] {
    while (other.ended() < kFew) (void)origin->answer(whole_, "1");
  });
  for (std::size_t i = 0; i < kFew; ++i) store->cancel(other.all().subspan(i * 7 % kFew, 1));
  EXPECT_TRUE(other.ends(kFew));
  answers.join();
  EXPECT_EQ(other.right(std::span(whole_).first(16)) + other.count_of(Code::kCancelled), kFew);
}

TEST_F(SharedFetchCrowd, AForkedChildWaitsForNothing) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  const auto origin = std::make_shared<HeldStore>();
  auto store = cached(origin);
  OneRead leader("x", 0, kSize), waiting("x", 0, kSize);
  ASSERT_TRUE(leader.start(*store).ok());
  ASSERT_TRUE(waiting.start(*store).ok());
  EXPECT_EQ(support::in_child([&] {
              OneRead refused("x", 0, kSize), own("x", 0, kSize);
              if (refused.start(*store).code() != Code::kForked) return 1;
              leader.cancel(*store);
              waiting.cancel(*store);
              store.reset();
              const auto own_origin = std::make_shared<HeldStore>();
              const auto own_store = cached(own_origin);
              if (!own.start(*own_store).ok() || !own_origin->reaches(1)) return 2;
              if (!own_origin->answer(pattern(kSize, 2), "2") || !own.ends()) return 3;
              return own.bytes() == pattern(kSize, 2) && leader.times() == 0 && waiting.times() == 0 ? 0 : 4;
            }),
            0);
  EXPECT_TRUE(origin->answer(whole_, "1"));
  for (OneRead* const read : {&leader, &waiting}) {
    ASSERT_TRUE(read->ends());
    EXPECT_EQ(read->bytes(), whole_);
  }
  EXPECT_EQ(origin->requests(), 1u);
}

void note_signal(int) {}

// Signals that interrupt system calls, as a profiler's timer does.
TEST_F(SharedFetchCrowd, SignalsInterruptNothing) {
  struct sigaction quick {
  }, before{};
  quick.sa_handler = note_signal;  // without SA_RESTART
  ASSERT_EQ(::sigaction(SIGUSR1, &quick, &before), 0);
  const auto objects = numbered_objects(20, 20'000);
  CachedStoreInMemory toy =
      cached_store(cache(), objects, {}, {.delay = std::chrono::microseconds(300), .tells_version = true});
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (std::size_t k = 0; k < 60; ++k) {
        const std::string key = std::to_string(k % 20);
        const CachedAnswer got = testing::read_range(*toy.store, key, 0, 20'000);
        EXPECT_TRUE(got.status.ok()) << got.status.to_string();
        EXPECT_TRUE(support::same_bytes(got.bytes, objects.at(key)));
        if (k == 40) cache::DiskCache::open(toy.options).value()->flush();
      }
      --running;
    });
  }
  while (running != 0) {
    for (std::thread& thread : threads) ::pthread_kill(thread.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  EXPECT_EQ(toy.asked->requests, 20u);
}

// A cache without descriptors is no cache, and finds its records again when there are some.
TEST_F(SharedFetchCrowd, FewDescriptors) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  const auto objects = numbered_objects(10, 20'000);
  EXPECT_EQ(
      support::in_child([&] {
        {
          CachedStoreInMemory first = cached_store(cache(), objects);
          for (const auto& [key, bytes] : objects) (void)testing::read_range(*first.store, key, 0, 20'000);
        }
        CachedStoreInMemory toy = cached_store(cache(), objects);
        const int next = ::dup(0);
        rlimit limit{};
        if (next < 0 || ::close(next) != 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
        const rlimit full = limit;
        for (const int more : {0, 1, 2}) {
          limit.rlim_cur = static_cast<rlim_t>(next + more);
          if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
          for (const std::size_t size : {std::size_t{20'000}, std::size_t{7000} + static_cast<std::size_t>(more)}) {
            for (const auto& [key, bytes] : objects) {
              const CachedAnswer got = testing::read_range(*toy.store, key, 0, size);
              if (!got.status.ok() || !support::same_bytes(got.bytes, std::span(bytes).first(size))) return 3;
            }
          }
          if (const auto open = cache::DiskCache::open(toy.options); open.ok()) (*open)->flush();
        }
        if (::setrlimit(RLIMIT_NOFILE, &full) != 0) return 4;
        toy.asked->reset();
        for (const auto& [key, bytes] : objects) {
          const CachedAnswer got = testing::read_range(*toy.store, key, 0, 20'000);
          if (!support::same_bytes(got.bytes, bytes)) return 5;
        }
        return toy.asked->requests == 0 ? 0 : 6;
      }),
      0);
}

// A process that leads a fetch is killed; another one that uses the directory never waited for it.
TEST_F(SharedFetchCrowd, AKilledProcessHoldsNobodyUp) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto origin = std::make_shared<HeldStore>();
    const auto store = cached(origin);
    OneRead leader("x", 0, kSize);
    if (!leader.start(*store).ok() || ::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  char told = 0;
  ASSERT_EQ(::read(ready[0], &told, 1), 1);
  ::close(ready[0]);
  const auto origin = std::make_shared<HeldStore>();
  const auto store = cached(origin);
  OneRead during("x", 0, kSize), after("y", 0, kSize);
  ASSERT_TRUE(during.start(*store).ok());
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(during.ends());
  EXPECT_EQ(during.bytes(), whole_);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFSIGNALED(how));
  ASSERT_TRUE(after.start(*store).ok());
  EXPECT_TRUE(origin->answer(whole_, "1"));
  ASSERT_TRUE(after.ends());
  EXPECT_EQ(after.bytes(), whole_);
}

// Somebody removes the directory, puts another or a link in its place, and fills it with anything that looks like a
// segment.
TEST_F(SharedFetchCrowd, TheDirectoryIsReplacedAndFilledMeanwhile) {
  const auto objects = numbered_objects(12, 9000);
  const RangeHabits habits{.delay = std::chrono::microseconds(100), .tells_version = true};
  const auto origin = std::make_shared<testing::RangeStoreInMemory>(objects, habits);
  std::atomic<int> running{3};
  std::atomic<std::size_t> opened{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&, seed] {
      std::shared_ptr<ByteStore> store = origin;
      for (std::size_t k = 0; k < 120; ++k) {
        if (k % 12 == 0) {
          auto again = cache::make_cached_ranges(origin, "toy://objects", options(), nullptr);
          if (again.ok()) store = *again;
          opened += again.ok() ? 1 : 0;
          EXPECT_NE(again.status().code(), Code::kNotFound) << "would be an absent object";
        }
        const std::string key = std::to_string((k * 5 + seed) % 12);
        const CachedAnswer got = testing::read_range(*store, key, 0, 9000);
        EXPECT_TRUE(got.status.ok()) << got.status.to_string();
        EXPECT_TRUE(support::same_bytes(got.bytes, objects.at(key)));
      }
      --running;
    });
  }
  const std::string aside = directory_ / "aside";
  std::error_code ignored;
  for (int step = 0; running != 0; ++step) {
    switch (step % 6) {
      case 0:
        fs::remove_all(cache(), ignored);
        break;
      case 1:
        (void)::mkfifo((cache() + "/1-0000000000000001.hrseg").c_str(), 0600);
        fs::create_directory(cache() + "/1-0000000000000002.hrseg", ignored);
        fs::create_symlink("/dev/zero", cache() + "/1-0000000000000003.hrseg", ignored);
        break;
      case 2:  // a segment of this directory twice, and its first half
        for (const auto& entry : fs::directory_iterator(cache(), ignored)) {
          if (!entry.is_regular_file(ignored) || entry.path().extension() != ".hrseg") continue;
          fs::copy_file(entry.path(), cache() + "/2-" + std::to_string(step) + ".hrseg", ignored);
          fs::copy_file(entry.path(), cache() + "/3-" + std::to_string(step) + ".hrseg", ignored);
          fs::resize_file(cache() + "/3-" + std::to_string(step) + ".hrseg", 5000, ignored);
          break;
        }
        break;
      case 3:
        fs::rename(cache(), aside, ignored);
        fs::create_symlink(aside, cache(), ignored);
        break;
      case 4:
        for (const char* const file : {"/secret", "/lock"}) fs::remove(cache() + file, ignored);
        break;
      default:
        fs::remove(cache(), ignored);  // the link
        fs::remove_all(aside, ignored);
        break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(opened, 0u);
  fs::remove_all(cache(), ignored);
  const auto store = cached(origin, "toy://objects");
  EXPECT_TRUE(support::same_bytes(testing::read_range(*store, "0", 0, 9000).bytes, objects.at("0")));
  EXPECT_EQ(origin->in_flight, 0u);
}

// A server whose answers take turns among three versions of the object.
TEST_F(SharedFetchCrowd, VersionsTakeTurns) {
  std::atomic<std::uint64_t> answers{0};
  RangeHabits habits{.delay = std::chrono::microseconds(100), .tells_version = true};
  habits.change = [&](RangeRead& read) {
    const std::uint64_t version = answers++ % 3;
    const store::Bytes bytes = pattern(kSize, version);
    read.bytes = std::min<std::uint64_t>(read.out.size(), kSize);
    std::copy_n(bytes.begin(), read.bytes, read.out.begin());
    read.found_version = "v" + std::to_string(version);
    read.status = read.version.empty() || read.version == read.found_version
                      ? Status()
                      : Status(Code::kAgainExhausted, Layer::kStore, "another version");
  };
  const auto origin = std::make_shared<testing::RangeStoreInMemory>(testing::Objects{{"x", whole_}}, habits);
  for (const auto trust : {cache::CacheTrust::kObject, cache::CacheTrust::kStore}) {
    cache::CacheOptions of = options();
    of.trust = trust;
    of.max_age_ns = 2'000'000;
    std::atomic<std::size_t> good{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const auto store = cache::make_cached_ranges(origin, "toy://held", of, nullptr).value();
        for (std::size_t k = 0; k < 100; ++k) {
          const std::string version = k % 4 == 3 ? "v" + std::to_string((k + i) % 3) : "";
          const CachedAnswer got = testing::read_range(*store, "x", 0, kSize, version);
          if (!got.status.ok()) {
            EXPECT_EQ(got.status.code(), Code::kAgainExhausted) << got.status.to_string();
            EXPECT_FALSE(version.empty());
            continue;
          }
          ASSERT_EQ(got.version.size(), 2u);
          EXPECT_TRUE(version.empty() || got.version == version);
          EXPECT_EQ(got.bytes, pattern(kSize, static_cast<std::uint64_t>(got.version[1] - '0')));
          ++good;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GE(good, 300u);
  }
}

TEST_F(SharedFetchCrowd, AStoreIsClosedWhileReadsOfAnotherWait) {
  cache::CacheOptions of = options();
  of.trust = cache::CacheTrust::kStore;
  const auto first = std::make_shared<HeldStore>(), second = std::make_shared<HeldStore>();
  auto one = cache::make_cached_ranges(first, "toy://held", of, nullptr).value();
  auto other = cache::make_cached_ranges(second, "toy://held", of, nullptr).value();
  // Afterwards both may read what either fetches.
  OneRead greet_first("a", 0, 10), greet_second("b", 0, 10);
  ASSERT_TRUE(greet_first.start(*one).ok());
  ASSERT_TRUE(greet_second.start(*other).ok());
  EXPECT_TRUE(first->answer(whole_, "1"));
  EXPECT_TRUE(second->answer(whole_, "1"));
  ASSERT_TRUE(greet_first.ends());
  ASSERT_TRUE(greet_second.ends());
  OneRead leader("x", 0, kSize), waiting("x", 0, kSize), left("x", 0, kSize);
  ASSERT_TRUE(leader.start(*one).ok());
  ASSERT_TRUE(waiting.start(*other).ok());
  ASSERT_TRUE(left.start(*other).ok());
  left.cancel(*other);
  ASSERT_TRUE(left.ends());
  // The leader's store goes, and the waiting read asks its own.
  leader.cancel(*one);
  ASSERT_TRUE(leader.ends());
  one.reset();
  ASSERT_TRUE(second->reaches(2));
  EXPECT_TRUE(second->answer(whole_, "1"));
  ASSERT_TRUE(waiting.ends());
  EXPECT_EQ(waiting.bytes(), whole_);
  EXPECT_EQ(first->requests(), 2u);
  EXPECT_EQ(second->requests(), 2u);
  other.reset();
}

// Handles are closed while reads are in flight, and some reads are cancelled.
TEST_F(SharedFetchCrowd, ArraysAreClosedWhileTheyAreRead) {
  const testing::FlatArray content{.chunks = 12, .chunk_elements = 900};
  const RangeHabits habits{.delay = std::chrono::milliseconds(2), .tells_version = true};
  const auto origin = std::make_shared<testing::RangeStoreInMemory>(objects_of(content), habits);
  for (int round = 0; round < 6; ++round) {
    std::vector<std::vector<std::uint32_t>> elements(4, std::vector<std::uint32_t>(content.elements()));
    std::vector<Completion> reads;
    for (auto& into : elements) {
      const Array array = Array::open(Store::open(context_, cached(origin, std::to_string(round / 2))).value()).value();
      reads.push_back(array.read_async({}, {into, {content.elements()}}, Device::open("host").value()).value());
    }
    if (round % 2 == 0) reads[0].cancel();
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const Status status = reads[i].wait();
      EXPECT_TRUE(status.ok() || (i == 0 && status.code() == Code::kCancelled)) << status.to_string();
      if (status.ok()) {
        EXPECT_TRUE(elements[i] == content.expected());
      }
    }
  }
  EXPECT_EQ(origin->in_flight, 0u);
}

}  // namespace
}  // namespace headrace
