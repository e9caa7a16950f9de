#include "transfer/worker_pool.h"

#include <algorithm>
#include <system_error>

namespace headrace::transfer {

Result<std::unique_ptr<WorkerPool>> WorkerPool::create(unsigned threads) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool);
  for (unsigned i = 0; i < threads; ++i) {
    try {
      pool->threads_.emplace_back([raw = pool.get()] { raw->run(); });
    } catch (const std::system_error& error) {
      if (i > 0) break;
      return Status(Code::kResourceExhausted, Layer::kTransfer, "no worker thread could be started").with_cause(error.what());
    }
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    ++generation_;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::add(std::shared_ptr<Workload> workload) {
  {
    std::lock_guard lock(mutex_);
    workloads_.push_back(std::move(workload));
    ++generation_;
  }
  changed_.notify_all();
}

void WorkerPool::notify() noexcept {
  {
    std::lock_guard lock(mutex_);
    ++generation_;
  }
  changed_.notify_all();
}

std::uint64_t WorkerPool::generation() const noexcept {
  std::lock_guard lock(mutex_);
  return generation_;
}

std::uint64_t WorkerPool::wait(std::uint64_t seen) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return generation_ != seen || stopping_; });
  return generation_;
}

void WorkerPool::run() {
  std::size_t turn = 0;   // workloads take turns at being looked at first
  for (;;) {
    std::shared_ptr<Workload> workload;
    std::uint64_t seen = 0;
    bool any_finished = false;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      seen = generation_;
    }
    for (std::size_t i = 0;; ++i) {
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
        if (i >= workloads_.size()) break;
        workload = workloads_[(turn + i) % workloads_.size()];
      }
      if (workload->work() == Workload::Progress::kFinished) {
        std::lock_guard lock(mutex_);
        std::erase(workloads_, workload);
        any_finished = true;
        break;
      }
    }
    ++turn;
    workload.reset();
    if (!any_finished) wait(seen);
  }
}

}  // namespace headrace::transfer
