// The rule of threads for reads that another store answers: a cancel reaches each request of its read and no other
// read, whenever the other store answers; the destructor waits for calls; a read allocates nothing of its own.
#include "base/forwarded_reads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/alloc_counter.h"
#include "support/child.h"
#include "support/held_store.h"

namespace headrace::base {
namespace {

using testing::HeldStore;
using testing::OneRead;

// The other store: a HeldStore, with functions that are called once before or after its own.
class Inner final : public ByteStore {
 public:
  HeldStore held;
  std::function<void()> before_start, after_start, before_cancel;
  std::set<const RangeRead*> asked;
  std::size_t named = 0;  // reads, by cancel()
  bool cleared = true;    // all reads were, when they began

  std::string url() const override { return "inner"; }
  Status start(std::span<RangeRead* const> reads) override {
    call(before_start);
    for (const RangeRead* const read : reads) {
      cleared = cleared && read->status.ok() && read->bytes == 0 && read->object_bytes == RangeRead::kUnknown &&
                read->found_version.empty() && read->cache == RangeCache::kNone;
    }
    HEADRACE_TRY(held.start(reads));
    asked.insert(reads.begin(), reads.end());
    call(after_start);
    return {};
  }
  void cancel(std::span<RangeRead* const> reads) noexcept override {
    named += reads.size();
    call(before_cancel);
    held.cancel(reads);
  }

 private:
  static void call(std::function<void()>& function) {
    if (const std::function<void()> once = std::exchange(function, nullptr)) once();
  }
};

// Forwards each read to one of its stores, `requests` times in turn.
class Forwarder final : public ByteStore, private RangeListener {
 public:
  explicit Forwarder(std::vector<ByteStore*> stores, int requests = 1)
      : stores_(std::move(stores)), requests_(requests) {}

  std::function<void()> before_send;
  int seen = 0;  // jobs that cancel() found

  std::string url() const override { return "forwarder"; }
  Status start(std::span<RangeRead* const> reads) override {
    if (reads_.inherited()) return Status(Code::kForked, Layer::kStore, "forked");
    std::vector<Job*> jobs;
    try {
      jobs = reads_.take(reads);
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
    if (before_send) before_send();
    for (Job* const job : jobs) {
      job->left = requests_;
      job->inner_store = stores_[job->outer->offset % stores_.size()];
      job->inner.key = job->outer->key;
      job->inner.out = job->outer->out;
      Status failure;
      if (reads_.send(*job, failure)) continue;
      if (jobs.size() == 1) {
        reads_.drop(jobs);
        return failure;
      }
      job->outer->status = failure;
      reads_.finish(*job);
    }
    return {};
  }
  void cancel(std::span<RangeRead* const> reads) noexcept override {
    reads_.cancel(reads, [&](Job& job) { seen += job.cancelled ? 1 : 0; });
  }

 private:
  struct Job : ForwardedRead {
    int left = 0;
  };
  void done(std::span<RangeRead* const> reads) noexcept override {
    for (RangeRead* const read : reads) {
      Job& job = ForwardedReads<Job>::job_of(*read);
      Status status = read->status;
      if (--job.left > 0 && status.ok() && reads_.send(job, status)) continue;
      job.outer->status = std::move(status);
      job.outer->bytes = read->bytes;
      reads_.finish(job);
    }
  }

  const std::vector<ByteStore*> stores_;
  const int requests_;
  ForwardedReads<Job> reads_{*this};
};

const store::Bytes kWhole(100);

Code code_of(OneRead& read) {
  EXPECT_TRUE(read.ends());
  EXPECT_EQ(read.times(), 1);
  return read.answer().status.code();
}

TEST(ForwardedReads, ACancelBeforeTheRequestReachesIt) {
  for (const bool in_start : {false, true}) {
    Inner inner;
    Forwarder forwarder({&inner});
    OneRead earlier("x", 0, 10), read("x", 0, 10);
    ASSERT_TRUE(earlier.start(forwarder).ok());
    ASSERT_TRUE(inner.held.answer(kWhole, ""));
    // Before send(), or when the other store has been called and does not know the read yet.
    (in_start ? inner.before_start : forwarder.before_send) = [&] {
      read.cancel(forwarder);
      EXPECT_EQ(inner.named, in_start ? 1u : 0u);
    };
    ASSERT_TRUE(read.start(forwarder).ok());
    EXPECT_EQ(read.times(), 1) << "when start() has returned, the request has been cancelled";
    EXPECT_EQ(code_of(read), Code::kCancelled);
    EXPECT_EQ(forwarder.seen, 1);
  }
}

TEST(ForwardedReads, ACancelReachesTheRequestInFlightAndNoOther) {
  Inner even, odd;
  Forwarder forwarder({&even, &odd});
  std::vector<std::unique_ptr<OneRead>> reads;
  for (std::uint64_t i = 0; i < 6; ++i) {
    reads.push_back(std::make_unique<OneRead>("x", i, 10));
    ASSERT_TRUE(reads.back()->start(forwarder).ok());
  }
  std::vector<RangeRead*> unwanted;
  for (const std::size_t i : {0, 3, 2}) unwanted.push_back(const_cast<RangeRead*>(&reads[i]->answer()));
  forwarder.cancel(unwanted);
  for (const std::size_t i : {0, 3, 2}) EXPECT_EQ(code_of(*reads[i]), Code::kCancelled);
  EXPECT_EQ(even.named, 2u);
  EXPECT_EQ(odd.named, 1u);
  EXPECT_EQ(forwarder.seen, 3);
  reads[0]->cancel(forwarder);
  EXPECT_EQ(forwarder.seen, 3) << "it has ended";
  while (even.held.answer(kWhole, "") || odd.held.answer(kWhole, "")) {
  }
  for (const std::size_t i : {1, 4, 5}) EXPECT_EQ(code_of(*reads[i]), Code::kOk);
}

TEST(ForwardedReads, ACancelReachesLaterRequests) {
  Inner inner;
  Forwarder forwarder({&inner}, 2);
  OneRead read("x", 0, 10);
  ASSERT_TRUE(read.start(forwarder).ok());
  // The first request ends in spite of the cancel, before the store looks for it.
  inner.before_cancel = [&] {
    EXPECT_TRUE(inner.held.answer(kWhole, ""));
    EXPECT_EQ(inner.held.requests(), 2u);
  };
  read.cancel(forwarder);
  EXPECT_EQ(code_of(read), Code::kCancelled);
}

// The other store takes its time to look for the read that it shall cancel: that ends, and the next read begins.
TEST(ForwardedReads, ACancelNeverReachesTheNextReadOfTheJob) {
  Inner inner;
  Forwarder forwarder({&inner});
  OneRead first("x", 0, 10), second("x", 0, 10);
  ASSERT_TRUE(first.start(forwarder).ok());
  inner.before_cancel = [&] {
    EXPECT_TRUE(inner.held.answer(kWhole, ""));
    EXPECT_EQ(code_of(first), Code::kOk);
    EXPECT_TRUE(second.start(forwarder).ok());
  };
  first.cancel(forwarder);
  EXPECT_EQ(second.times(), 0);
  EXPECT_TRUE(inner.held.answer(kWhole, ""));
  EXPECT_EQ(code_of(second), Code::kOk);
  EXPECT_EQ(inner.asked.size(), 2u);
  // The same for the cancel that send() makes.
  OneRead third("x", 0, 10), fourth("x", 0, 10);
  inner.before_start = [&] {
    third.cancel(forwarder);
    inner.before_cancel = [&] {
      EXPECT_TRUE(inner.held.answer(kWhole, ""));
      EXPECT_TRUE(fourth.start(forwarder).ok());
    };
  };
  ASSERT_TRUE(third.start(forwarder).ok());
  EXPECT_EQ(code_of(third), Code::kOk);
  EXPECT_EQ(fourth.times(), 0);
  EXPECT_TRUE(inner.held.answer(kWhole, ""));
  EXPECT_EQ(code_of(fourth), Code::kOk);
}

// A read that ends within the other store's start(), and whose job is in use again when that returns.
TEST(ForwardedReads, AReadThatEndsWithinStart) {
  Inner inner;
  Forwarder forwarder({&inner});
  OneRead first("x", 0, 10), second("x", 0, 10);
  inner.before_start = [&] { first.cancel(forwarder); };
  inner.after_start = [&] {
    EXPECT_TRUE(inner.held.answer(kWhole, ""));
    EXPECT_TRUE(second.start(forwarder).ok());
  };
  ASSERT_TRUE(first.start(forwarder).ok());
  EXPECT_EQ(code_of(first), Code::kOk);
  EXPECT_EQ(second.times(), 0);
  EXPECT_EQ(inner.asked.size(), 1u) << "the job was used twice";
  EXPECT_TRUE(inner.held.answer(kWhole, ""));
  EXPECT_EQ(code_of(second), Code::kOk);
}

TEST(ForwardedReads, RefusedReadsAreTheCallers) {
  Inner inner;
  Forwarder forwarder({&inner});
  inner.held.refuse = [] { return Status(Code::kIo, Layer::kStore, "planted"); };
  OneRead read("x", 0, 10);
  inner.before_start = [&] { read.cancel(forwarder); };
  EXPECT_EQ(read.start(forwarder).code(), Code::kIo);
  EXPECT_EQ(read.times(), 0);
  EXPECT_EQ(inner.named, 1u) << "only by cancel() itself";
  inner.held.refuse = [] {
    throw std::runtime_error("planted");
    return Status();
  };
  EXPECT_EQ(read.start(forwarder).cause(), "planted");
  EXPECT_EQ(read.times(), 0);
  inner.held.refuse = nullptr;
  ASSERT_TRUE(read.start(forwarder).ok());
  EXPECT_TRUE(inner.held.answer(kWhole, ""));
  EXPECT_EQ(code_of(read), Code::kOk);
}

// Threads that start reads and cancel every other one, and threads that answer, some of them late.
TEST(ForwardedReads, ManyThreadsCancelAndAnswer) {
  HeldStore even, odd;
  Forwarder forwarder({&even, &odd}, 2);
  std::atomic<int> readers{4};
  std::atomic<int> wrong{0};
  const auto reading = [&] {
    for (int round = 0; round < 400; ++round) {
      OneRead wanted("x", static_cast<std::uint64_t>(round), 10), unwanted("x", static_cast<std::uint64_t>(round), 10);
      wrong += unwanted.start(forwarder).ok() && wanted.start(forwarder).ok() ? 0 : 1;
      unwanted.cancel(forwarder);
      wrong += wanted.ends() && unwanted.ends() && wanted.answer().status.ok() ? 0 : 1;
      wrong += wanted.times() == 1 && unwanted.times() == 1 ? 0 : 1;
    }
    --readers;
  };
  const auto answering = [&](HeldStore& store, bool newest) {
    while (readers != 0) {
      if (!(newest ? store.answer_last(kWhole, "") : store.answer(kWhole, ""))) std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(reading);
  for (HeldStore* const store : {&even, &odd}) {
    threads.emplace_back(answering, std::ref(*store), false);
    threads.emplace_back(answering, std::ref(*store), true);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// The last read ends within a start() of the other store that has not returned yet.
TEST(ForwardedReads, TheDestructorWaitsForCallsOfOtherThreads) {
  Inner inner;
  auto forwarder = std::make_unique<Forwarder>(std::vector<ByteStore*>{&inner}, 2);
  OneRead read("x", 0, 10);
  ASSERT_TRUE(read.start(*forwarder).ok());
  std::mutex mutex;
  std::condition_variable changed;
  bool may_return = false;
  std::atomic<bool> returned{false};
  inner.after_start = [&] {
    EXPECT_TRUE(inner.held.answer(kWhole, ""));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return may_return; });
    returned = true;
  };
  std::thread answering([&] { inner.held.answer(kWhole, ""); });
  EXPECT_EQ(code_of(read), Code::kOk);
  // In a child, the thread that would return does not exist.
  EXPECT_EQ(support::in_child([&] {
              OneRead other("x", 0, 10);
              const bool refused = other.start(*forwarder).code() == Code::kForked;
              forwarder.reset();
              return refused ? 0 : 1;
            }),
            0);
  std::thread releasing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::lock_guard lock(mutex);
    may_return = true;
    changed.notify_all();
  });
  forwarder.reset();
  EXPECT_TRUE(returned);
  releasing.join();
  answering.join();
}

TEST(ForwardedReads, JobsAreUsedAgain) {
  Inner inner;
  Forwarder forwarder({&inner});
  for (int round = 0; round < 100; ++round) {
    OneRead a("x", 0, 10), b("x", 0, 10), c("x", 0, 10);
    for (OneRead* const read : {&a, &b, &c}) ASSERT_TRUE(read->start(forwarder).ok());
    ASSERT_TRUE(inner.held.answer(kWhole, "a version"));
    ASSERT_TRUE(inner.held.answer_last(kWhole, "a version"));
    b.cancel(forwarder);
    ASSERT_EQ(b.times(), 1);
    for (OneRead* const read : {&a, &b, &c}) ASSERT_EQ(code_of(*read), read == &b ? Code::kCancelled : Code::kOk);
  }
  EXPECT_EQ(inner.asked.size(), 3u);
  EXPECT_TRUE(inner.cleared);
}

TEST(ForwardedReads, ARequestAllocatesNothing) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  HeldStore inner;
  for (const int requests : {1, 5}) {
    Forwarder forwarder({&inner}, requests);
    std::uint64_t allocations = 0;
    for (int round = 0; round < 100; ++round) {
      OneRead read("x", 0, 10);
      const support::AllocScope scope(support::AllocScope::Of::kThread);
      ASSERT_TRUE(read.start(forwarder).ok());
      while (inner.answer(kWhole, "")) {
      }
      allocations = scope.allocations();
      ASSERT_TRUE(read.ends());
    }
    EXPECT_LE(allocations, 1u) << "the result of take()";
  }
}

TEST(ForwardedReads, WithoutMemory) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  HeldStore inner;
  Forwarder forwarder({&inner});
  std::vector<std::unique_ptr<OneRead>> reads;
  std::uint64_t refused = 0;
  for (int i = 0; i < 40; ++i) {
    auto read = std::make_unique<OneRead>("x", 0, 10);
    // The n-th allocation fails, until none does.
    for (std::uint64_t n = 0;; ++n) {
      support::fail_at_in_this_thread(n);
      const Status status = read->start(forwarder);
      const std::uint64_t fired = support::stop_failing();
      refused += fired;
      if (status.ok()) break;
      ASSERT_EQ(status.code(), Status::out_of_memory().code());
      ASSERT_NE(fired, 0u);
      read->cancel(forwarder);
      ASSERT_EQ(forwarder.seen, 0) << "it has not begun";
    }
    reads.push_back(std::move(read));
  }
  EXPECT_GT(refused, 40u);
  EXPECT_EQ(inner.requests(), 40u);
  support::fail_at_in_this_thread(0, support::AllocFailure::kForever);
  reads[0]->cancel(forwarder);
  // The order of the cancelled reads, the list of their requests, and the memory of both exceptions.
  EXPECT_GE(support::stop_failing(), 2u);
  EXPECT_EQ(forwarder.seen, 1);
  EXPECT_EQ(reads[0]->times(), 0) << "it ends by itself";
  support::fail_at_in_this_thread(0, support::AllocFailure::kForever);
  while (inner.answer(kWhole, "")) {
  }
  EXPECT_EQ(support::stop_failing(), 0u) << "the end of a read cannot fail";
  for (const auto& read : reads) EXPECT_EQ(code_of(*read), Code::kOk);
}

}  // namespace
}  // namespace headrace::base
