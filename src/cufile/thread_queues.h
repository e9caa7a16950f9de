// ThreadQueues: the movers that execute blocking calls, one for each thread and kind of memory.
//
// A queue has staging memory and an I/O engine that belong to one thread, so it is kept from call to call. When a
// thread ends, the next new one takes over its queues.
//
// Threads: lend() from any thread; a thread's calls do not nest.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cufile/session.h"
#include "transfer/files/mover.h"

namespace headrace::cufile {

struct ThreadQueueSet;

class ThreadQueues : public std::enable_shared_from_this<ThreadQueues> {
 public:
  ThreadQueues();
  ~ThreadQueues();
  // Lends the calling thread's queue of `session` for memory at `place`, for the lifetime of the object.
  class Lent {
   public:
    Lent(Lent&&) = default;
    ~Lent();
    transfer::Mover& operator*() const noexcept { return *queue_; }
    transfer::Mover* operator->() const noexcept { return queue_; }

   private:
    friend class ThreadQueues;
    Lent(ThreadQueues& all, ThreadQueueSet& set, std::unique_lock<std::mutex> lock)
        : all_(&all), set_(&set), lock_(std::move(lock)) {}
    ThreadQueues* all_;
    ThreadQueueSet* set_;
    std::unique_lock<std::mutex> lock_;
    transfer::Mover* queue_ = nullptr;
  };
  Result<Lent> lend(Session& session, const device::MemoryPlace& place);

  // A file was closed: queues release it now, or at the end of their current call.
  void files_closed() noexcept;
  // Destroys the queues of a session; waits for running calls.
  void end_session(std::uint64_t session) noexcept;

 private:
  friend struct ThreadLaneHolder;
  ThreadQueueSet* own_set();
  void give_back(ThreadQueueSet* set) noexcept;
  static void end_call(ThreadQueues& all, ThreadQueueSet& set, std::unique_lock<std::mutex> lock) noexcept;

  std::atomic<std::uint64_t> closed_{0};  // number of files closed so far
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadQueueSet>> sets_;  // guarded by mutex_
  std::vector<ThreadQueueSet*> spare_;                 // guarded by mutex_
};

}  // namespace headrace::cufile
