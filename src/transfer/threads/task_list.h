// TaskList: tasks that the workers of a pool do once each, in order, while nobody waits for them.
//
// Threads: work() from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "transfer/threads/near_threads.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

class TaskList final : public Workload {
 public:
  // Tasks must not throw. At most `at_once` of them run at a time.
  TaskList(std::vector<std::function<void()>> tasks, std::size_t at_once)
      : tasks_(std::move(tasks)), at_once_(at_once) {}

  Progress work() override {
    for (;;) {
      std::function<void()> task;
      {
        std::lock_guard lock(mutex_);
        if (next_ == tasks_.size()) return Progress::kFinished;
        if (running_ == at_once_) return Progress::kIdle;  // whoever runs them does the others, too
        task = std::move(tasks_[next_++]);
        ++running_;
      }
      {
        const NearThreads::StartsThreads starts;  // a task may make a driver start some, which are not the pool's
        task();
      }
      task = nullptr;  // releases what it holds before another begins
      std::lock_guard lock(mutex_);
      --running_;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_, as is all below
  std::size_t next_ = 0, running_ = 0;
  const std::size_t at_once_;
};

}  // namespace headrace::transfer
