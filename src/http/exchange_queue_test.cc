// ExchangeQueue: which loop gets which exchange, when loops sleep, and that no exchange is lost between loops.
#include "http/exchange_queue.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace headrace::http {
namespace {

struct Wanted final : Exchange {
  bool on_line(std::string_view) noexcept override { return true; }
  bool on_body(std::span<const std::byte>) noexcept override { return true; }
  void on_end(ExchangeEnd, std::string_view) noexcept override { ended.fetch_add(1); }
  std::atomic<int> ended{0};
};

struct Loop final : ExchangeLoop {
  Status begin() noexcept override {
    if (fails) return Status(Code::kResourceExhausted, Layer::kStore, "no thread");
    ++begun;
    return {};
  }
  void wake() noexcept override { ++woken; }
  bool fails = false;
  int begun = 0, woken = 0;
};

std::size_t count(ExchangeList list) {
  std::size_t size = 0;
  while (list.pop_front() != nullptr) ++size;
  return size;
}

class ExchangeQueues : public ::testing::Test {
 protected:
  ExchangeQueues() : queue_(8), loops_(3), wanted_(100) {
    for (Loop& loop : loops_) queue_.add(loop);
    EXPECT_TRUE(queue_.begin().ok());
  }
  void start(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      Exchange* const one[] = {&wanted_[next_++]};
      queue_.start(one);
    }
  }
  std::size_t given(std::size_t loop) { return count(queue_.take(loop).given); }

  ExchangeQueue queue_;
  std::vector<Loop> loops_;
  std::deque<Wanted> wanted_;
  std::size_t next_ = 0;
};

TEST_F(ExchangeQueues, FewExchangesShareOneThread) {
  start(ExchangeQueue::kSpread);
  EXPECT_EQ(loops_[1].begun, 0);
  EXPECT_EQ(given(0), ExchangeQueue::kSpread);
  for (int i = 0; i < 50; ++i) {  // one after the other
    queue_.ended(0);
    start(1);
    EXPECT_EQ(given(0), 1u);
  }
  EXPECT_EQ(loops_[1].begun, 0);
}

TEST_F(ExchangeQueues, ManyExchangesAreSpreadOverThreads) {
  start(20);
  EXPECT_TRUE(queue_.any_waits());
  EXPECT_EQ(given(0), 3u);
  EXPECT_EQ(given(1), 3u);
  EXPECT_EQ(given(2), 2u);
  for (const Loop& loop : loops_) EXPECT_EQ(loop.begun, 1);
  EXPECT_EQ(given(0) + given(1) + given(2), 0u) << "eight at a time";
  queue_.ended(1);
  EXPECT_EQ(given(1), 1u) << "who has the fewest";
  queue_.use_connections(4);
  for (int i = 0; i < 4; ++i) queue_.ended(0 + static_cast<std::size_t>(i) % 3);
  EXPECT_EQ(given(0) + given(1) + given(2), 0u) << "four are under way";
  queue_.ended(0);
  EXPECT_EQ(given(0) + given(1) + given(2), 1u);
  queue_.use_connections(1000);
  EXPECT_EQ(given(0) + given(1) + given(2), 4u) << "never more than the first limit";
}

TEST_F(ExchangeQueues, LoopsThatCannotStartAreSkipped) {
  loops_[1].fails = true;
  start(8);
  EXPECT_EQ(given(0), 8u);
  EXPECT_EQ(loops_[2].begun, 0);
}

TEST_F(ExchangeQueues, SleepersAreWokenOnce) {
  EXPECT_EQ(queue_.sleep(0, 77), 77u);
  start(2);
  EXPECT_EQ(loops_[0].woken, 1);
  EXPECT_EQ(queue_.sleep(0, 77), 0u) << "something was given";
  EXPECT_EQ(given(0), 2u);
  queue_.ended(0);
  start(1);
  EXPECT_EQ(loops_[0].woken, 1) << "it was awake";
  EXPECT_EQ(given(0), 1u);
  EXPECT_EQ(queue_.sleep(0, 77), 77u);
  queue_.look_for_cancelled();
  EXPECT_EQ(loops_[0].woken, 2);
  EXPECT_EQ(queue_.sleep(0, 77), 0u);
  EXPECT_TRUE(queue_.take(0).look_for_cancelled);
  EXPECT_EQ(queue_.sleep(0, 77), 77u);
  queue_.stop();
  EXPECT_EQ(loops_[0].woken, 3);
  EXPECT_EQ(queue_.sleep(0, 77), 0u);
  EXPECT_TRUE(queue_.take(0).stop);
}

TEST_F(ExchangeQueues, DelayedExchangesAreNotForgotten) {
  const std::uint64_t now = base::now_ns();
  start(8);
  EXPECT_EQ(given(0) + given(1) + given(2), 8u);
  EXPECT_EQ(queue_.sleep(0, ~std::uint64_t{0}), ~std::uint64_t{0});
  wanted_[8].not_before_ns = now + 20'000'000;
  start(1);  // the exchange with a start time
  EXPECT_EQ(loops_[0].woken, 1) << "which is told to the loop that watches it";
  EXPECT_FALSE(queue_.any_waits());
  EXPECT_EQ(queue_.sleep(0, ~std::uint64_t{0}), wanted_[8].not_before_ns);
  EXPECT_EQ(queue_.sleep(1, ~std::uint64_t{0}), ~std::uint64_t{0}) << "the others do not";
  start(1);  // queued after it
  while (base::now_ns() < wanted_[8].not_before_ns) std::this_thread::yield();
  EXPECT_EQ(given(0), 0u) << "no connection";
  EXPECT_TRUE(queue_.any_waits());
  queue_.ended(0);
  EXPECT_EQ(queue_.take(0).given.pop_front(), &wanted_[8]) << "it has waited before";
  wanted_[10].urgent = true;
  start(1);
  queue_.ended(0);
  EXPECT_EQ(queue_.take(0).given.pop_front(), &wanted_[10]);
}

TEST_F(ExchangeQueues, CancelledExchangesAreReturnedOnce) {
  wanted_[10].not_before_ns = ~std::uint64_t{0};
  start(20);
  EXPECT_EQ(given(0) + given(1) + given(2), 8u);
  for (const std::size_t i : {3u, 8u, 10u, 19u}) wanted_[i].cancel_wanted = true;
  queue_.look_for_cancelled();
  EXPECT_EQ(count(queue_.take(1).cancelled), 3u) << "those that wait; one has begun";
  EXPECT_EQ(count(queue_.take(0).cancelled), 0u);
  for (int i = 0; i < 9; ++i) {
    queue_.ended(0);
    EXPECT_EQ(given(0) + given(1) + given(2), 1u) << i;
  }
  EXPECT_FALSE(queue_.any_waits());
}

// Real threads that sleep until woken: each exchange ends exactly once, and at most eight are in flight.
TEST(ExchangeQueueThreads, NoExchangeIsLost) {
  constexpr std::size_t kLoops = 4, kStarters = 3, kEach = 5000;
  struct Threaded final : ExchangeLoop {
    Status begin() noexcept override {
      thread = std::thread([this] { run(); });
      return {};
    }
    void wake() noexcept override {
      const std::lock_guard lock(mutex);
      woken = true;
      changed.notify_one();
    }
    void run() {
      std::vector<Exchange*> mine;
      for (;;) {
        ExchangeQueue::Turn turn = queue->take(index);
        if (turn.stop) return;
        while (Exchange* const one = turn.cancelled.pop_front()) one->on_end(ExchangeEnd::kCancelled, {});
        while (Exchange* const one = turn.given.pop_front()) {
          mine.push_back(one);
          const int now = ++*under_way;
          for (int seen = *most; now > seen && !most->compare_exchange_weak(seen, now);) {
          }
        }
        if (mine.size() > 1 || (!mine.empty() && queue->sleep(index, 1) == 0)) {
          Exchange* const one = mine.front();
          mine.erase(mine.begin());
          --*under_way;
          queue->ended(index);
          one->on_end(ExchangeEnd::kComplete, {});
          continue;
        }
        if (!mine.empty()) {  // its one exchange completes without outside help
          std::this_thread::yield();
          --*under_way;
          queue->ended(index);
          mine.front()->on_end(ExchangeEnd::kComplete, {});
          mine.clear();
          continue;
        }
        if (queue->sleep(index, ~std::uint64_t{0}) == 0) continue;
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return std::exchange(woken, false); });
      }
    }
    ExchangeQueue* queue = nullptr;
    std::size_t index = 0;
    std::atomic<int>*under_way = nullptr, *most = nullptr;
    std::mutex mutex;
    std::condition_variable changed;
    bool woken = false;
    std::thread thread;
  };
  std::atomic<int> under_way{0}, most{0};
  ExchangeQueue queue(8);
  std::vector<Threaded> loops(kLoops);
  for (std::size_t i = 0; i < kLoops; ++i) {
    loops[i].queue = &queue;
    loops[i].index = i;
    loops[i].under_way = &under_way;
    loops[i].most = &most;
    queue.add(loops[i]);
  }
  ASSERT_TRUE(queue.begin().ok());
  std::deque<Wanted> wanted(kStarters * kEach);
  std::vector<std::thread> starters;
  for (std::size_t s = 0; s < kStarters; ++s) {
    starters.emplace_back([&, s] {
      for (std::size_t i = 0; i < kEach; ++i) {
        Wanted& one = wanted[s * kEach + i];
        if (i % 97 == 0) one.cancel_wanted = true;
        Exchange* const pointer[] = {&one};
        queue.start(pointer);
        if (i % 97 == 0) queue.look_for_cancelled();
        if (i % 11 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& starter : starters) starter.join();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (Wanted& one : wanted) {
    while (one.ended == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "lost";
      std::this_thread::yield();
    }
  }
  queue.stop();
  for (Threaded& loop : loops) {
    if (loop.thread.joinable()) loop.thread.join();
  }
  for (const Wanted& one : wanted) EXPECT_EQ(one.ended, 1);
  EXPECT_LE(most, 8);
}

}  // namespace
}  // namespace headrace::http
