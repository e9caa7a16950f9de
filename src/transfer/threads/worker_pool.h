// WorkerPool: the threads that plan, read, decode and assemble, shared by all reads of a Context.
//
// A Workload can use several workers at once and reports when it has nothing for one more. Workers sleep on one counter
// that every change of any workload's state advances, so no wake-up is lost. Where the number of available tasks is
// known, no more workers than that are woken.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transfer/threads/near_threads.h"

namespace headrace::transfer {

class Workload {
 public:
  enum class Progress : std::uint8_t { kIdle, kFinished };
  virtual ~Workload() = default;
  // Does all it can on the calling thread. kIdle: no work for this thread until the pool is notified.
  virtual Progress work() = 0;
};

class WorkerPool {
  struct State;

 public:
  static constexpr std::size_t kAll = ~std::size_t{0};
  // If the system provides fewer threads than asked, the pool uses those; no thread at all is an error. The threads
  // follow `near`, if not null; with `one_per_cpu`, only as many work as there are CPUs that they are bound to.
  static Result<std::unique_ptr<WorkerPool>> create(unsigned threads, std::shared_ptr<NearThreads> near = nullptr,
                                                    bool one_per_cpu = false);
  ~WorkerPool();

  // Wakes as many workers as there are tasks at first. Dropped when work() returns kFinished.
  void add(std::shared_ptr<Workload> workload, std::size_t first_tasks = kAll);
  void notify() noexcept;                // some work became available, or has ended
  unsigned bound_cpus() const noexcept;  // that the threads are bound to; 0: not bound
  std::uint64_t generation() const noexcept;
  std::uint64_t woken() const noexcept;  // how many times a sleeping worker has been woken
  void wait(std::uint64_t seen);         // until notify() has been called since `seen` was read

  // notify() for users that may outlive the pool.
  class Notifier {
   public:
    void notify() const noexcept;
    // `new_tasks` tasks became available, each for one thread.
    void notify(std::size_t new_tasks) const noexcept;

   private:
    friend class WorkerPool;
    explicit Notifier(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };
  Notifier notifier() const { return Notifier(state_); }

 private:
  // Shared with the threads, so that a worker that destroys the pool by releasing its last owner can finish safely.
  explicit WorkerPool(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static void run(State& state, unsigned index);

  const std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace headrace::transfer
