// Each task runs once, on no more threads than wanted, and its captures go with it.
#include "transfer/threads/task_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace headrace::transfer {
namespace {

class TaskLists : public ::testing::Test {
 protected:
  // Runs `count` tasks on eight workers, and waits for them.
  void run(int count, std::size_t at_once) {
    std::vector<std::function<void()>> tasks;
    for (int i = 0; i < count; ++i) {
      tasks.emplace_back([this, i] {
        {
          std::lock_guard lock(mutex_);
          begun_.push_back(i);
          most_ = std::max(most_, ++running_);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::lock_guard lock(mutex_);
        --running_;
        if (++ended_ == begun_.size()) changed_.notify_all();
      });
    }
    pool_->add(std::make_shared<TaskList>(std::move(tasks), at_once), at_once);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == static_cast<std::size_t>(count); });
  }

  const std::unique_ptr<WorkerPool> pool_ = WorkerPool::create(8).value();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> begun_;
  std::size_t running_ = 0, most_ = 0, ended_ = 0;
};

TEST_F(TaskLists, TasksBeginInOrder) {
  run(12, 1);
  EXPECT_TRUE(std::ranges::is_sorted(begun_));
  EXPECT_EQ(begun_.size(), 12u);
  EXPECT_EQ(most_, 1u);
}

TEST_F(TaskLists, NoMoreRunThanWanted) {
  run(40, 3);
  EXPECT_EQ(begun_.size(), 40u);
  EXPECT_LE(most_, 3u);
  EXPECT_GT(most_, 1u);
}

TEST_F(TaskLists, ATaskIsReleasedOnceItHasRun) {
  const auto held = std::make_shared<int>(0);
  TaskList list({[held] {}, [&held] { EXPECT_EQ(held.use_count(), 1); }}, 1);
  EXPECT_EQ(list.work(), Workload::Progress::kFinished);
}

TEST_F(TaskLists, APoolThatEndsFinishesTheTasksThatRun) {
  std::atomic<int> ended{0};
  {
    const auto pool = WorkerPool::create(2).value();
    std::atomic<bool> begun{false};
    pool->add(std::make_shared<TaskList>(std::vector<std::function<void()>>{[&] {
                                           begun = true;
                                           std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                           ++ended;
                                         }},
                                         1),
              1);
    while (!begun) std::this_thread::yield();
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace headrace::transfer
