// ForwardedReads: the reads of a ByteStore that gets its bytes from other ByteStores, as a cache does. It has the rule
// of threads for them: which requests a cancel reaches, when the memory of a request is used again, and how long the
// other stores are needed.
//
// An *outer* read is one that the forwarding store was asked for. From its start to its end it has a *job*. The job's
// *inner* read is its request to another store. A job makes no request, one, or several in turn to the same store.
//
//   take()    The forwarding store's start() takes a job for each outer read.
//   send()    Starts inner reads. A job is then the other store's, until that calls the listener's done(). The listener
//             finds the job by job_of(), and sends again, leaves the job to another thread, or finishes it.
//   finish()  Ends the outer read, once. For reads that start() refuses there is drop() instead.
//
// Threads: every call from any thread. A job belongs to one thread at a time; others touch only what mutex() guards.
//          mutex() is not held while a store or a listener is called. The forwarding store may guard its own state with
//          it as well, in particular what must change together with `cancelled`.
// Cancel:  cancel() sets `cancelled` until the job ends, and cancels the inner read in its store. If that store's
//          start() was still running, send() cancels the inner read once more after it. So no request of a cancelled
//          job is missed; only without memory, cancel() leaves them to end by themselves. A store may be asked to
//          cancel a read twice, or after its end, but never the next read of the same job: jobs that end while other
//          stores' cancel() runs rest, and are not taken before it has returned.
// Ends:    after finish(), and after a send() that succeeded, the job may be in use again. If it was the last one, the
//          forwarding store may be destroyed at once, unless its own start() or cancel() is running. The destructor
//          waits until every send() has returned from the other store, which may be destroyed after that.
// Memory:  jobs are pooled. Otherwise only the result of take() and the list of cancel() are allocated.
// Fork:    in a forked child, only inherited() may be called, and the destructor only frees memory.
#pragma once

#include <headrace/byte_store.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "base/fork.h"
#include "base/guarded_call.h"
#include "base/pointer_set.h"

namespace headrace::base {

// What every job has. The forwarding store's type of jobs is derived from it.
struct ForwardedRead {
  RangeRead* outer = nullptr;        // null: the job is not in use
  ByteStore* inner_store = nullptr;  // set it before the first send(), and keep it
  RangeRead inner;                   // set the request before each send(), except for `listener` and `user`
  // Guarded by mutex():
  bool cancelled = false;

 private:
  template <class Job>
  friend class ForwardedReads;
  bool sent = false;          // `inner_store` has or had the inner read, or is getting it
  std::size_t active_at = 0;  // in active_
};

template <class Job>
class ForwardedReads {
 public:
  // `listener` gets the ends of inner reads.
  explicit ForwardedReads(RangeListener& listener) noexcept : listener_(listener) {}
  // REQUIRES: all outer reads have ended.
  ~ForwardedReads() {
    if (inherited()) return;
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return sends_ == 0; });
  }
  // Whether this process is a forked child of the one that created the object.
  bool inherited() const noexcept { return generation_ != fork_generation(); }
  std::mutex& mutex() noexcept { return mutex_; }
  static Job& job_of(const RangeRead& inner) noexcept {
    return *reinterpret_cast<Job*>(inner.user);  // NOLINT(performance-no-int-to-ptr): stored by add_job()
  }

  // A job for each read, in their order. Throws std::bad_alloc, and then takes none.
  std::vector<Job*> take(std::span<RangeRead* const> reads) {
    std::vector<Job*> taken;
    taken.reserve(reads.size());
    std::lock_guard lock(mutex_);
    while (free_.size() < reads.size()) add_job();
    for (RangeRead* const read : reads) {
      Job* const job = free_.back();
      free_.pop_back();
      job->outer = read;
      job->active_at = active_.size();
      active_.push_back(job);
      taken.push_back(job);
    }
    return taken;
  }

  void drop(std::span<Job* const> jobs) noexcept {
    std::lock_guard lock(mutex_);
    for (Job* const job : jobs) recycle(*job);
  }

  // Starts inner reads, all of one store. False: the store refuses them, `failure` says why, and the jobs are still the
  // caller's.
  bool send(std::span<RangeRead* const> inner, Status& failure) noexcept {
    for (RangeRead* const read : inner) {
      read->status = {};
      read->bytes = 0;
      read->object_bytes = RangeRead::kUnknown;
      read->found_version.clear();
      read->cache = RangeCache::kNone;
    }
    ByteStore& store = *job_of(*inner.front()).inner_store;
    std::unique_lock lock(mutex_);
    for (RangeRead* const read : inner) job_of(*read).sent = true;
    ++sends_;
    lock.unlock();
    failure = guarded([&] { return store.start(inner); });
    lock.lock();
    for (RangeRead* const read : inner) {
      const Job& job = job_of(*read);
      if (failure.ok() && job.cancelled && job.sent) cancel_inner({&read, 1}, lock);
    }
    if (--sends_ == 0) returned_.notify_all();
    return failure.ok();
  }
  bool send(Job& job, Status& failure) noexcept {
    RangeRead* const one[] = {&job.inner};
    return send(one, failure);
  }

  // REQUIRES: the result is in *job.outer.
  void finish(Job& job) noexcept {
    RangeRead* const read = job.outer;
    Job* const one[] = {&job};
    drop(one);
    read->listener->done({&read, 1});
  }

  // Ignores reads that have ended. Calls `each` for the job of every other one, with the lock held.
  template <class Each>
  void cancel(std::span<RangeRead* const> reads, Each each) noexcept {
    const PointerSet<RangeRead> wanted(reads);
    std::vector<RangeRead*> inner;
    std::unique_lock lock(mutex_);
    bool noted = true;
    try {
      inner.reserve(active_.size());
    } catch (const std::bad_alloc&) {
      noted = false;
    }
    for (Job* const job : active_) {
      if (!wanted.contains(job->outer)) continue;
      job->cancelled = true;
      if (noted && job->sent) inner.push_back(&job->inner);
      each(*job);
    }
    if (!inner.empty()) cancel_inner(inner, lock);
  }

 private:
  // REQUIRES, for all of these: mutex_ is held.

  // Reserves room in every list, so that no list grows where failure is not allowed.
  void add_job() {
    if (jobs_.size() == jobs_.capacity()) jobs_.reserve(2 * jobs_.size() + 16);
    for (std::vector<Job*>* const list : {&active_, &free_, &resting_}) list->reserve(jobs_.capacity());
    jobs_.push_back(std::make_unique<Job>());
    Job* const job = jobs_.back().get();
    job->inner.listener = &listener_;
    job->inner.user = reinterpret_cast<std::uint64_t>(job);
    free_.push_back(job);
  }

  void recycle(Job& job) noexcept {
    active_.back()->active_at = job.active_at;
    active_[job.active_at] = active_.back();
    active_.pop_back();
    job.outer = nullptr;
    job.cancelled = job.sent = false;
    (cancels_ != 0 ? resting_ : free_).push_back(&job);
  }

  // Releases the lock while it calls the stores; none of the jobs is taken meanwhile.
  void cancel_inner(std::span<RangeRead* const> inner, std::unique_lock<std::mutex>& lock) noexcept {
    ++cancels_;
    lock.unlock();
    for (std::size_t at = 0, next = 0; at < inner.size(); at = next) {
      ByteStore* const store = job_of(*inner[at]).inner_store;
      while (next < inner.size() && job_of(*inner[next]).inner_store == store) ++next;
      store->cancel(inner.subspan(at, next - at));
    }
    lock.lock();
    if (--cancels_ != 0) return;
    free_.insert(free_.end(), resting_.begin(), resting_.end());
    resting_.clear();
  }

  RangeListener& listener_;
  const std::uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  std::condition_variable returned_;
  // Guarded by mutex_:
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Job*> active_, free_;
  std::vector<Job*> resting_;  // ended while cancels_ was not 0
  std::size_t sends_ = 0;      // running calls of other stores' start()
  std::size_t cancels_ = 0;    // and of their cancel()
};

}  // namespace headrace::base
