#include "transfer/threads/worker_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/trace.h"

namespace headrace::transfer {

// Shared with the threads, so that a worker that destroys the pool by releasing its last owner can finish safely.
struct WorkerPool::State {
  std::mutex mutex;
  std::condition_variable changed;                   // workers sleep on it, which can do any work there is
  std::condition_variable changed_elsewhere;         // superfluous workers and callers in wait(), which cannot
  std::uint64_t generation = 0;                      // guarded by mutex
  bool stopping = false;                             // guarded by mutex
  unsigned callers = 0;                              // in wait(); guarded by mutex
  unsigned asleep = 0;                               // workers on `changed`; guarded by mutex
  std::uint64_t woken = 0;                           // guarded by mutex
  unsigned cpus = 0;                                 // bound_cpus() at the last add(); guarded by mutex
  std::vector<std::shared_ptr<Workload>> workloads;  // guarded by mutex
  std::shared_ptr<NearThreads> near;                 // may be null
  bool one_per_cpu = false;

  unsigned bound_cpus() const noexcept { return near != nullptr ? near->bound_cpus() : 0; }
  // With no workload, workers stay asleep: work that a caller does alone wakes no worker.
  void notify() noexcept {
    {
      std::lock_guard lock(mutex);
      ++generation;
      if (workloads.empty() && callers == 0 && !stopping) return;
      woken += asleep;
    }
    changed.notify_all();
    changed_elsewhere.notify_all();
  }
  // Wakes only sleeping workers: those awake check again before they sleep.
  void notify(std::size_t new_tasks) noexcept {
    std::size_t wakes = 0;
    bool any_callers = false;
    {
      std::lock_guard lock(mutex);
      ++generation;
      if (!workloads.empty()) wakes = std::min<std::size_t>(new_tasks, asleep);
      woken += wakes;
      any_callers = callers != 0;
    }
    while (wakes-- > 0) changed.notify_one();
    if (any_callers) changed_elsewhere.notify_all();
  }
};

Result<std::unique_ptr<WorkerPool>> WorkerPool::create(unsigned threads, std::shared_ptr<NearThreads> near,
                                                       bool one_per_cpu) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool(std::make_shared<State>()));
  pool->state_->near = std::move(near);
  pool->state_->one_per_cpu = one_per_cpu;
  for (unsigned i = 0; i < threads; ++i) {
    try {
      pool->threads_.emplace_back([state = pool->state_, i] { run(*state, i); });
    } catch (const std::system_error& error) {
      if (i > 0) break;
      return Status(Code::kResourceExhausted, Layer::kTransfer, "no worker thread could be started")
          .with_cause(error.what());
    }
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->notify();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();  // it is about to end
    } else {
      thread.join();
    }
  }
  // Finished workloads that no worker removed: they own the state through their notifiers, and the state owns them.
  std::vector<std::shared_ptr<Workload>> left;
  {
    std::lock_guard lock(state_->mutex);
    left.swap(state_->workloads);
  }
}

void WorkerPool::add(std::shared_ptr<Workload> workload, std::size_t first_tasks) {
  const unsigned cpus = state_->bound_cpus();
  bool moved = false;
  {
    std::lock_guard lock(state_->mutex);
    state_->workloads.push_back(std::move(workload));
    moved = std::exchange(state_->cpus, cpus) != cpus;
  }
  // Superfluous workers may no longer be.
  if (moved || first_tasks == kAll) return state_->notify();
  state_->notify(first_tasks);
}

void WorkerPool::notify() noexcept { state_->notify(); }

void WorkerPool::Notifier::notify() const noexcept { state_->notify(); }

void WorkerPool::Notifier::notify(std::size_t new_tasks) const noexcept { state_->notify(new_tasks); }

unsigned WorkerPool::bound_cpus() const noexcept { return state_->bound_cpus(); }

std::uint64_t WorkerPool::generation() const noexcept {
  std::lock_guard lock(state_->mutex);
  return state_->generation;
}

std::uint64_t WorkerPool::woken() const noexcept {
  std::lock_guard lock(state_->mutex);
  return state_->woken;
}

void WorkerPool::wait(std::uint64_t seen) {
  std::unique_lock lock(state_->mutex);
  ++state_->callers;
  state_->changed_elsewhere.wait(lock, [&] { return state_->generation != seen || state_->stopping; });
  --state_->callers;
}

void WorkerPool::run(State& state, unsigned index) {
  trace::name_thread("worker");
  NearThreads::Thread thread(state.near);
  std::size_t turn = 0;  // rotates which workload is tried first
  for (;;) {
    std::uint64_t seen = 0;
    {
      std::lock_guard lock(state.mutex);
      if (state.stopping) return;
      seen = state.generation;
    }
    bool any_finished = false;
    thread.follow();
    // Work that changes the number of CPUs is added after that, which wakes all.
    const unsigned cpus = state.one_per_cpu ? state.bound_cpus() : 0;
    const bool superfluous = cpus != 0 && index >= cpus;
    for (std::size_t i = 0; !any_finished && !superfluous; ++i) {
      std::shared_ptr<Workload> workload;
      {
        std::lock_guard lock(state.mutex);
        if (state.stopping) return;
        if (i >= state.workloads.size()) break;
        workload = state.workloads[(turn + i) % state.workloads.size()];
      }
      if (workload->work() != Workload::Progress::kFinished) continue;
      any_finished = true;
      std::lock_guard lock(state.mutex);
      std::erase(state.workloads, workload);
    }
    ++turn;
    if (any_finished) continue;
    std::unique_lock lock(state.mutex);
    const auto woken = [&] { return state.generation != seen || state.stopping; };
    if (superfluous) {
      state.changed.notify_one();  // passes on a wake-up from before it became superfluous
      state.changed_elsewhere.wait(lock, woken);
      continue;
    }
    ++state.asleep;
    state.changed.wait(lock, woken);
    --state.asleep;
  }
}

}  // namespace headrace::transfer
