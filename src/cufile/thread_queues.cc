#include "cufile/thread_queues.h"

#include <algorithm>

#include "base/fork.h"
#include "base/grow.h"

namespace headrace::cufile {

struct ThreadLane {
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

// Gives a thread's lane back when it ends. In a forked child the lanes are the parent's: nothing is touched.
struct ThreadLaneHolder {
  const ThreadQueues* all = nullptr;  // only to compare
  std::weak_ptr<ThreadQueues> owner;
  ThreadLane* lane = nullptr;
  std::uint64_t fork_generation = 0;
  ~ThreadLaneHolder() {
    if (lane == nullptr || fork_generation != base::fork_generation()) return;
    if (const auto alive = owner.lock()) alive->give_back(lane);
  }
};

namespace {

thread_local ThreadLaneHolder t_holder;

}  // namespace

ThreadQueues::ThreadQueues() = default;
ThreadQueues::~ThreadQueues() = default;

ThreadLane* ThreadQueues::own_lane() {
  ThreadLaneHolder& holder = t_holder;
  if (holder.all == this && holder.fork_generation == base::fork_generation()) return holder.lane;
  std::lock_guard lock(mutex_);
  if (spare_.empty()) {
    base::grow_to(spare_, lanes_.size() + 1);  // room for all, so that giving one back cannot fail
    lanes_.push_back(std::make_unique<ThreadLane>());
    spare_.push_back(lanes_.back().get());
  }
  holder.all = this;
  holder.owner = weak_from_this();
  holder.lane = spare_.back();
  holder.fork_generation = base::fork_generation();
  spare_.pop_back();
  return holder.lane;
}

void ThreadQueues::give_back(ThreadLane* lane) noexcept {
  {
    std::lock_guard lock(lane->busy);
    for (ThreadLane::Kept& kept : lane->queues) kept.queue->leave_thread();
  }
  std::lock_guard lock(mutex_);
  spare_.push_back(lane);
}

Result<ThreadQueues::Lent> ThreadQueues::lend(Session& session, const device::MemoryPlace& place) {
  ThreadLane& lane = *own_lane();
  Lent lent(*this, lane, std::unique_lock(lane.busy));
  if (lane.session != session.id()) {
    lane.queues.clear();
    lane.session = session.id();
  }
  const int key = queue_key(place);
  for (const ThreadLane::Kept& kept : lane.queues) {
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
    lane.queues.push_back({key, std::move(queue)});
    lent.queue_ = lane.queues.back().queue.get();
  }
  return lent;
}

ThreadQueues::Lent::~Lent() {
  if (lock_.owns_lock()) end_call(*all_, *lane_, std::move(lock_));
}

// A file that was closed during the call was in use, and could not be let go of then. One that is closed between the
// look and the unlocking finds the lane locked: hence the second look.
void ThreadQueues::end_call(ThreadQueues& all, ThreadLane& lane, std::unique_lock<std::mutex> lock) noexcept {
  for (;;) {
    const std::uint64_t closed = all.closed_.load();
    if (lane.closed_seen != closed) {
      lane.closed_seen = closed;
      for (ThreadLane::Kept& kept : lane.queues) kept.queue->drop_idle_files();
    }
    lock.unlock();
    if (all.closed_.load() == closed || !lock.try_lock()) return;
  }
}

void ThreadQueues::files_closed() noexcept {
  closed_.fetch_add(1);
  std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    std::unique_lock busy(lane->busy, std::try_to_lock);
    if (!busy.owns_lock()) continue;
    for (ThreadLane::Kept& kept : lane->queues) kept.queue->drop_idle_files();
  }
}

void ThreadQueues::end_session(std::uint64_t session) noexcept {
  std::vector<ThreadLane*> all;
  {
    std::lock_guard lock(mutex_);
    all.reserve(lanes_.size());
    for (const auto& lane : lanes_) all.push_back(lane.get());  // none is ever removed
  }
  for (ThreadLane* lane : all) {
    std::lock_guard busy(lane->busy);
    if (lane->session == session) lane->queues.clear();
  }
}

}  // namespace headrace::cufile
