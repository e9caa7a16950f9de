#include "cufile/thread_queues.h"

#include <algorithm>

#include "base/fork.h"
#include "base/grow.h"

namespace headrace::cufile {

struct ThreadQueueSet {
  struct Kept {
    int key;
    std::unique_ptr<transfer::Mover> queue;
  };
  std::mutex busy;
  std::uint64_t session = 0;      // guarded by busy; of the queues
  std::uint64_t closed_seen = 0;  // guarded by busy
  std::vector<Kept> queues;       // guarded by busy
  std::uint64_t fork_generation = base::fork_generation();
};

// Returns a thread's set when the thread ends. In a forked child the sets belong to the parent, so nothing is touched.
struct ThreadLaneHolder {
  const ThreadQueues* all = nullptr;  // only to compare
  std::weak_ptr<ThreadQueues> owner;
  ThreadQueueSet* set = nullptr;
  std::uint64_t fork_generation = 0;
  ~ThreadLaneHolder() {
    if (set == nullptr || fork_generation != base::fork_generation()) return;
    if (const auto alive = owner.lock()) alive->give_back(set);
  }
};

namespace {

thread_local ThreadLaneHolder t_holder;

}  // namespace

ThreadQueues::ThreadQueues() = default;
ThreadQueues::~ThreadQueues() = default;

ThreadQueueSet* ThreadQueues::own_set() {
  ThreadLaneHolder& holder = t_holder;
  if (holder.all == this && holder.fork_generation == base::fork_generation()) return holder.set;
  std::lock_guard lock(mutex_);
  if (spare_.empty()) {
    base::grow_to(spare_, sets_.size() + 1);  // room for all, so that returning one cannot fail
    sets_.push_back(std::make_unique<ThreadQueueSet>());
    spare_.push_back(sets_.back().get());
  }
  holder.all = this;
  holder.owner = weak_from_this();
  holder.set = spare_.back();
  holder.fork_generation = base::fork_generation();
  spare_.pop_back();
  return holder.set;
}

void ThreadQueues::give_back(ThreadQueueSet* set) noexcept {
  {
    std::lock_guard lock(set->busy);
    for (ThreadQueueSet::Kept& kept : set->queues) kept.queue->leave_thread();
  }
  std::lock_guard lock(mutex_);
  spare_.push_back(set);
}

Result<ThreadQueues::Lent> ThreadQueues::lend(Session& session, const device::MemoryPlace& place) {
  ThreadQueueSet& set = *own_set();
  Lent lent(*this, set, std::unique_lock(set.busy));
  if (set.session != session.id()) {
    set.queues.clear();
    set.session = session.id();
  }
  const int key = queue_key(place);
  for (const ThreadQueueSet::Kept& kept : set.queues) {
    if (kept.key == key) lent.queue_ = kept.queue.get();
  }
  if (lent.queue_ == nullptr) {
    HEADRACE_TRY_ASSIGN(auto device, session.device(place));
    const Config& config = session.config();
    FileQueueOptions options;
    options.path = config.path;
    options.caller_reads = true;
    options.staging_bytes = config.staging_mib << 20;
    auto queue = std::make_unique<transfer::Mover>(session.resources(), std::move(device), options);
    HEADRACE_TRY(queue->prepare());
    set.queues.push_back({key, std::move(queue)});
    lent.queue_ = set.queues.back().queue.get();
  }
  return lent;
}

ThreadQueues::Lent::~Lent() {
  if (lock_.owns_lock()) end_call(*all_, *set_, std::move(lock_));
}

// Files closed during the call were in use and could not be released then. A file closed between the check and the
// unlock finds the set locked, hence the second check.
void ThreadQueues::end_call(ThreadQueues& all, ThreadQueueSet& set, std::unique_lock<std::mutex> lock) noexcept {
  for (;;) {
    const std::uint64_t closed = all.closed_.load();
    if (set.closed_seen != closed) {
      set.closed_seen = closed;
      for (ThreadQueueSet::Kept& kept : set.queues) kept.queue->drop_idle_files();
    }
    lock.unlock();
    if (all.closed_.load() == closed || !lock.try_lock()) return;
  }
}

void ThreadQueues::files_closed() noexcept {
  closed_.fetch_add(1);
  std::lock_guard lock(mutex_);
  for (const auto& set : sets_) {
    std::unique_lock busy(set->busy, std::try_to_lock);
    if (!busy.owns_lock()) continue;
    for (ThreadQueueSet::Kept& kept : set->queues) kept.queue->drop_idle_files();
  }
}

void ThreadQueues::end_session(std::uint64_t session) noexcept {
  std::vector<ThreadQueueSet*> all;
  {
    std::lock_guard lock(mutex_);
    all.reserve(sets_.size());
    for (const auto& set : sets_) all.push_back(set.get());  // none is ever removed
  }
  for (ThreadQueueSet* set : all) {
    std::lock_guard busy(set->busy);
    if (set->session == session) set->queues.clear();
  }
}

}  // namespace headrace::cufile
