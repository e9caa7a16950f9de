// However workers interleave and groups end: each group is run once, each wave is launched, settled and released once,
// and the work's end() is called once, last. Only workers that are worth it are woken.
#include "transfer/read/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

namespace headrace::transfer {
namespace {

struct Odds {  // each is one in so many; 0: never
  unsigned cold = 0, starved = 0, starved_fill = 0, fails = 0;
  bool launches = false;
  unsigned waits = 0;
};

class FakeWork final : public WaveWork {
 public:
  FakeWork(std::uint32_t waves, std::uint32_t groups, const Odds& odds, ReadReport& report, unsigned seed)
      : odds_(odds), report_(report), left_(groups), waves_(waves), random_(seed) {
    for (Wave& wave : waves_) wave.done = std::vector<std::atomic<int>>(kMaxGroups);
  }

  void begin() override {}
  Filled fill(std::uint32_t index, Worker&) override {
    expect_open();
    if (!fills_on_ && one_in(odds_.starved_fill)) return {.starved = true};
    Wave& wave = waves_[index];
    EXPECT_TRUE(lookups_done());
    const bool begins = !std::exchange(fills_on_, false);
    EXPECT_EQ(wave.used.exchange(true), !begins) << "nothing but the wave that waits is filled";
    if (one_in(odds_.waits)) {
      fills_on_ = true;
      awaited_ = true;
      ++waits;
      return {.waits = true};
    }
    const std::uint32_t groups = std::min<std::uint32_t>(left_, 1 + roll() % kMaxGroups);
    left_ -= groups;
    wave.groups = groups;
    for (auto& done : wave.done) done = 0;
    return {false, left_ == 0, groups, one_in(2), one_in(2)};
  }
  RunResult run(std::uint32_t index, std::uint32_t begin, std::uint32_t end, Worker&) override {
    expect_open();
    RunResult ran{begin, 0};
    for (; ran.next < end; ++ran.next) {
      if (one_in(odds_.starved)) break;
      if (one_in(odds_.fails)) report_.stop(Status(Code::kIo, Layer::kTransfer, "planned"));
      if (one_in(odds_.cold)) {
        std::lock_guard lock(mutex_);
        under_way_.push_back({index, ran.next});
        continue;
      }
      ++waves_[index].done[ran.next];
      ++groups_run;
      ++ran.finished;
    }
    return ran;
  }
  bool lookups_done() const noexcept override { return !awaited_; }
  // Acts as another thread: completes some of what is in flight.
  std::size_t complete_some() {
    awaited_ = false;
    std::lock_guard lock(mutex_);
    const std::size_t count = under_way_.size() / 2 + under_way_.size() % 2;
    for (std::size_t i = 0; i < count; ++i) {
      completed_.push_back(under_way_.back());
      under_way_.pop_back();
    }
    return count;
  }
  std::size_t in_flight() const override {
    std::lock_guard lock(mutex_);
    return under_way_.size();
  }
  bool any_completed() const noexcept override {
    std::lock_guard lock(mutex_);
    return !completed_.empty();
  }
  bool idle() const override {
    std::lock_guard lock(mutex_);
    return completed_.empty() && under_way_.empty();
  }
  std::span<const std::uint32_t> resume(Worker& worker, std::size_t workers) override {
    expect_open();
    worker.resumed.clear();
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i <= completed_.size() / workers && !completed_.empty(); ++i) {
      const TaskGroup group = completed_.back();
      completed_.pop_back();
      ++waves_[group.wave].done[group.index];
      ++groups_run;
      worker.resumed.push_back(group.wave);
    }
    return worker.resumed;
  }
  bool launch(std::uint32_t index, Worker&) override {
    expect_open();
    Wave& wave = waves_[index];
    for (std::uint32_t i = 0; i < wave.groups; ++i) EXPECT_EQ(wave.done[i].load(), 1) << "group " << i;
    ++waves_launched;
    return odds_.launches;
  }
  bool launches() const noexcept override { return odds_.launches; }
  bool passed(std::uint32_t) override { return one_in(3); }
  void notice(std::uint32_t) override {}
  bool drain(std::uint32_t index, Worker&) override {
    EXPECT_FALSE(waves_[index].drained.exchange(true));
    return one_in(2);
  }
  void settle(std::uint32_t index, Worker&) override {
    expect_open();
    EXPECT_TRUE(waves_[index].drained.exchange(false));
    ++waves_settled;
  }
  void release(std::uint32_t index) override { waves_[index].used = false; }
  void end(std::span<const std::unique_ptr<Worker>>) override {
    EXPECT_EQ(ended.fetch_add(1), 0);
    EXPECT_TRUE(idle());
    for (Wave& wave : waves_) EXPECT_FALSE(wave.used.load());
  }

  std::atomic<int> ended{0};
  std::atomic<std::uint32_t> waits{0}, groups_run{0}, waves_launched{0}, waves_settled{0};

 private:
  static constexpr std::uint32_t kMaxGroups = 40;
  struct Wave {
    std::atomic<bool> used{false}, drained{false};
    std::uint32_t groups = 0;
    std::vector<std::atomic<int>> done;
  };
  struct TaskGroup {
    std::uint32_t wave, index;
  };
  void expect_open() const { EXPECT_EQ(ended.load(), 0) << "called after its end"; }
  unsigned roll() {
    std::lock_guard lock(mutex_);
    return static_cast<unsigned>(random_());
  }
  bool one_in(unsigned count) { return count != 0 && roll() % count == 0; }

  const Odds odds_;
  ReadReport& report_;
  std::uint32_t left_;  // fill() is called by one thread at a time
  bool fills_on_ = false;
  std::atomic<bool> awaited_{false};
  std::vector<Wave> waves_;
  mutable std::mutex mutex_;
  std::mt19937 random_;               // guarded by mutex_
  std::vector<TaskGroup> under_way_;  // guarded by mutex_
  std::vector<TaskGroup> completed_;  // guarded by mutex_
};

struct Outcome {
  Status status;
  std::uint32_t groups_run = 0, launched = 0, settled = 0, waits = 0;
};

// A read of `groups` groups with four workers and the caller. cancel_at: after so many groups; 0: never.
Outcome read(std::uint32_t groups, const Odds& odds, unsigned seed, std::uint32_t cancel_at = 0) {
  auto pool = WorkerPool::create(4);
  EXPECT_TRUE(pool.ok());
  const ReadReport::Progress nobody;
  auto report = std::make_unique<ReadReport>(nobody, false, 0);
  auto made = std::make_unique<FakeWork>(3, groups, odds, *report, seed);
  FakeWork& work = *made;
  Scheduler::Setup setup;
  setup.chunks = groups;
  setup.waves = 3;
  for (int i = 0; i < 4; ++i) setup.workers.push_back(std::make_unique<Worker>());
  auto scheduler = std::make_shared<Scheduler>(**pool, std::move(report), std::move(made), std::move(setup));
  std::atomic<bool> over{false};
  // Where nothing else has to be waited for, only as many workers are woken as have work, which must suffice.
  const bool wakes_all = odds.starved != 0 || odds.starved_fill != 0 || odds.waits != 0 || odds.fails != 0;
  std::thread others([&, notifier = (*pool)->notifier()] {
    while (!over) {
      const std::size_t completed = work.complete_some();
      wakes_all ? scheduler->descriptor_closed() : notifier.notify(completed);
      if (cancel_at != 0 && work.groups_run >= cancel_at) scheduler->cancel();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  Outcome out;
  out.status = scheduler->run();
  over = true;
  others.join();
  EXPECT_TRUE(scheduler->done());
  EXPECT_EQ(work.ended, 1);
  out.groups_run = work.groups_run;
  out.waits = work.waits;
  out.launched = work.waves_launched;
  out.settled = work.waves_settled;
  return out;
}

class SchedulerTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(SchedulerTest, RunsEveryGroupOnce) {
  for (const bool launches : {false, true}) {
    for (const Odds& odds : {Odds{0, 0, 0, 0, launches}, Odds{2, 0, 0, 0, launches}, Odds{3, 6, 4, 0, launches},
                             Odds{3, 6, 4, 0, launches, 2}}) {
      const Outcome out = read(500, odds, GetParam());
      EXPECT_TRUE(out.status.ok()) << out.status.to_string();
      EXPECT_EQ(out.groups_run, 500u);
      EXPECT_GT(out.launched, 0u);
      EXPECT_EQ(out.waits > 0, odds.waits > 0);
      EXPECT_EQ(out.settled, launches ? out.launched : 0u);
    }
  }
}

TEST_P(SchedulerTest, AnEmptyReadEnds) { EXPECT_TRUE(read(0, Odds{}, GetParam()).status.ok()); }

TEST_P(SchedulerTest, EndsOnceWhereAGroupStopsIt) {
  for (const bool launches : {false, true}) {
    for (const unsigned waits : {0u, 2u}) {
      const Outcome out = read(2000, Odds{3, 9, 4, 100, launches, waits}, GetParam());
      EXPECT_EQ(out.status.code(), Code::kIo);
      EXPECT_LE(out.groups_run, 2000u);
    }
  }
}

TEST_P(SchedulerTest, EndsOnceWhereItIsCancelled) {
  for (const unsigned waits : {0u, 2u}) {
    const Outcome out = read(200'000, Odds{5, 20, 10, 0, true, waits}, GetParam(), 50);
    EXPECT_EQ(out.status.code(), Code::kCancelled);
    EXPECT_LT(out.groups_run, 200'000u);
  }
}

// Does nothing, at once.
class IdleWork : public WaveWork {
 public:
  void begin() override {}
  Filled fill(std::uint32_t, Worker&) override { return {}; }
  RunResult run(std::uint32_t, std::uint32_t, std::uint32_t, Worker&) override { return {}; }
  std::size_t in_flight() const override { return 0; }
  bool any_completed() const noexcept override { return false; }
  bool idle() const override { return true; }
  std::span<const std::uint32_t> resume(Worker&, std::size_t) override { return {}; }
  bool launch(std::uint32_t, Worker&) override { return false; }
  bool launches() const noexcept override { return false; }
  bool passed(std::uint32_t) override { return true; }
  void notice(std::uint32_t) override {}
  bool drain(std::uint32_t, Worker&) override { return false; }
  void settle(std::uint32_t, Worker&) override {}
  void release(std::uint32_t) override {}
  void end(std::span<const std::unique_ptr<Worker>>) override {}
};

// Dropping a read that was never started still ends its work.
TEST(SchedulerTest, EndsWhatWasNeverStarted) {
  auto pool = WorkerPool::create(1);
  ASSERT_TRUE(pool.ok());
  const ReadReport::Progress nobody;
  int ended = 0;
  class Work final : public IdleWork {
   public:
    explicit Work(int& ended) : ended_(ended) {}
    void end(std::span<const std::unique_ptr<Worker>>) override { ++ended_; }

   private:
    int& ended_;
  };
  std::make_shared<Scheduler>(**pool, std::make_unique<ReadReport>(nobody, false, 0), std::make_unique<Work>(ended),
                              Scheduler::Setup{})
      .reset();
  EXPECT_EQ(ended, 1);
}

// One wave of groups, each of which waits until another one runs at the same time.
class SlowWork final : public IdleWork {
 public:
  explicit SlowWork(std::uint32_t groups) : groups_(groups) {}
  Filled fill(std::uint32_t, Worker&) override { return {.last = true, .groups = groups_}; }
  RunResult run(std::uint32_t, std::uint32_t begin, std::uint32_t end, Worker&) override {
    ++inside_;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(begin == 0 ? 0 : 5);
    if (begin == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // shows that groups take long
    while (!together && std::chrono::steady_clock::now() < until) {
      if (inside_ > 1) together = true;
    }
    --inside_;
    return {end, end - begin};
  }

  std::atomic<bool> together{false};

 private:
  const std::uint32_t groups_;
  std::atomic<int> inside_{0};
};

// Of a read by a pool of eight workers, all asleep.
struct Woken {
  std::uint64_t workers = 0;
  bool together = false;
};
Woken read_slowly(std::uint32_t groups, std::shared_ptr<GroupCost> cost) {
  const auto pool = WorkerPool::create(8).value();
  class Idle final : public Workload {
   public:
    Progress work() override { return ++calls, ends ? Progress::kFinished : Progress::kIdle; }
    std::atomic<int> calls{0};
    std::atomic<bool> ends{false};
  };
  const auto idle = std::make_shared<Idle>();
  pool->add(idle);
  while (idle->calls < 8) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const ReadReport::Progress nobody;
  auto work = std::make_unique<SlowWork>(groups);
  const SlowWork& slow = *work;
  Scheduler::Setup setup;
  setup.chunks = groups;
  setup.cost = std::move(cost);
  for (int i = 0; i < 8; ++i) setup.workers.push_back(std::make_unique<Worker>());
  const auto scheduler = std::make_shared<Scheduler>(*pool, std::make_unique<ReadReport>(nobody, false, 0),
                                                     std::move(work), std::move(setup));
  Woken out;
  const std::uint64_t before = pool->woken();
  scheduler->start();
  EXPECT_TRUE(scheduler->wait().ok());
  out.workers = pool->woken() - before;
  out.together = slow.together;
  idle->ends = true;
  return out;
}

TEST(SchedulerTest, WakesAWorkerForEachGroupOfUnknownCost) {
  const Woken woken = read_slowly(6, nullptr);
  EXPECT_TRUE(woken.together);
  EXPECT_GE(woken.workers, 2u);
}

TEST(SchedulerTest, WakesOneForGroupsThatAreShort) {
  const auto cost = std::make_shared<GroupCost>();
  cost->note(1, 1);
  // The only group takes 2 ms, which nobody knows before.
  EXPECT_LE(read_slowly(1, cost).workers, 3u);
}

TEST(SchedulerTest, WakesMoreOnceShortGroupsTurnOutToBeLong) {
  const auto cost = std::make_shared<GroupCost>();
  cost->note(1, 1);
  const Woken woken = read_slowly(6, cost);
  EXPECT_TRUE(woken.together);
  EXPECT_GE(woken.workers, 2u);
}

TEST(GroupCosts, DecideHowManyWorkersPay) {
  GroupCost cost;
  EXPECT_EQ(cost.helpers(40), 40u) << "not known";
  cost.note(1, GroupCost::kWakeNs);
  EXPECT_EQ(cost.helpers(40), 40u);
  for (int i = 0; i < 100; ++i) cost.note(10, 20'000);
  EXPECT_EQ(cost.helpers(8), 0u);
  EXPECT_EQ(cost.helpers(500), 20u);
  for (int i = 0; i < 100; ++i) cost.note(1, ~std::uint64_t{0});
  EXPECT_EQ(cost.helpers(8), 8u);
  GroupCost shortest;
  shortest.note(1000, 1);
  EXPECT_EQ(shortest.helpers(8), 0u) << "known to be short";
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerTest, ::testing::Range(1u, 9u));

}  // namespace
}  // namespace headrace::transfer
