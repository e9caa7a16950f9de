// Workers sleep while there is nothing to do, only as many wake as have work, and no wake-up is lost.
#include "transfer/threads/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace headrace::transfer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Tasks, each of which is done once.
struct Things final : Workload {
  Progress work() override {
    calls.fetch_add(1);
    for (int left = waiting; left > 0;) {
      if (!waiting.compare_exchange_weak(left, left - 1)) continue;
      done.fetch_add(1);
      left = waiting;
    }
    return ends && waiting == 0 ? Progress::kFinished : Progress::kIdle;
  }
  std::atomic<int> waiting{0}, done{0}, calls{0};
  std::atomic<bool> ends{false};
};

template <class Condition>
bool becomes_true(const Condition& condition) {
  for (const auto end = steady_clock::now() + std::chrono::seconds(60); !condition();) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

// Work that has woken all eight threads of the pool, which sleep again.
std::shared_ptr<Things> sleep_on(WorkerPool& pool) {
  auto things = std::make_shared<Things>();
  pool.add(things);
  EXPECT_TRUE(becomes_true([&] { return things->calls >= 8; }));
  std::this_thread::sleep_for(milliseconds(50));
  return things;
}

void expect_end(WorkerPool& pool, Things& things) {
  things.ends = true;
  const int calls = things.calls;
  pool.notify();
  EXPECT_TRUE(becomes_true([&] { return things.calls > calls; }));
}

TEST(WorkerPools, NoMoreThreadsWakeThanThereAreTasks) {
  const auto pool = WorkerPool::create(8).value();
  const auto things = sleep_on(*pool);
  for (int i = 1; i <= 20; ++i) {
    const int calls = things->calls;
    ++things->waiting;
    pool->notifier().notify(1);
    ASSERT_TRUE(becomes_true([&] { return things->done == i; }));
    std::this_thread::sleep_for(milliseconds(2));
    EXPECT_LE(things->calls, calls + 3);
  }
  const int calls = things->calls;
  pool->notify();
  EXPECT_TRUE(becomes_true([&] { return things->calls >= calls + 8; })) << "all of them";
  expect_end(*pool, *things);
}

TEST(WorkerPools, WorkThatIsAddedWakesAsManyThreadsAsItHasTasks) {
  const auto pool = WorkerPool::create(8).value();
  const auto all = sleep_on(*pool);
  const std::uint64_t woken = pool->woken();
  const auto one = std::make_shared<Things>();
  one->waiting = 1;
  pool->add(one, 1);
  ASSERT_TRUE(becomes_true([&] { return one->done == 1; }));
  EXPECT_LE(pool->woken(), woken + 1);
  expect_end(*pool, *one);
  expect_end(*pool, *all);
}

// Several workloads, several threads that add to them, and callers that sleep on the same pool.
TEST(WorkerPools, NoWakeUpIsLost) {
  constexpr int kEach = 3000, kAdders = 3;
  const auto pool = WorkerPool::create(4).value();
  const std::shared_ptr<Things> all[] = {std::make_shared<Things>(), std::make_shared<Things>()};
  for (const auto& things : all) pool->add(things);
  std::atomic<bool> over{false}, gone{false};
  std::atomic<int> woken{0};
  std::thread caller([&] {
    while (!over) {
      pool->wait(pool->generation());
      ++woken;
    }
    gone = true;
  });
  std::vector<std::thread> adders;
  for (int a = 0; a < kAdders; ++a) {
    adders.emplace_back([&, a] {
      const WorkerPool::Notifier notifier = pool->notifier();
      for (int i = 0; i < kEach; ++i) {
        Things& things = *all[(i + a) % 2];
        const int count = 1 + i % 3;
        things.waiting += count;
        notifier.notify(static_cast<std::size_t>(count));
        if (i % 50 == a) std::this_thread::sleep_for(std::chrono::microseconds(100));  // long enough to fall asleep
      }
    });
  }
  for (std::thread& adder : adders) adder.join();
  // No more notifications: the workers already woken finish the rest.
  EXPECT_TRUE(becomes_true([&] { return all[0]->waiting + all[1]->waiting == 0; }));
  EXPECT_EQ(all[0]->done + all[1]->done, kAdders * kEach * 2);
  EXPECT_GT(woken, 0);
  over = true;
  for (const auto& things : all) expect_end(*pool, *things);
  EXPECT_TRUE(becomes_true([&] { return pool->notify(), gone.load(); }));
  caller.join();
}

}  // namespace
}  // namespace headrace::transfer
