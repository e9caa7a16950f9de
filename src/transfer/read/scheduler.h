// Scheduler: assigns the work of one read to workers. Waves are filled, their groups are claimed in runs, and a wave
// whose groups are all done is launched, drained and filled again. The Scheduler knows nothing of I/O, codecs or
// devices.
//
// One wave is kept filled ahead; while filling it waits for a user's store, all other work continues. Claims start long
// and shrink to single groups, so that all workers finish together. A wave that the device has finished is drained
// first, because the next wave needs its memory. Only as many workers are woken as are worth it (GroupCost). When the
// process runs out of descriptors, groups that need one go back to be claimed again after a file is closed. The lock is
// taken per claim and per wave, never per group.
//
// Threads: work() on any number of threads; the rest from any thread.
// Owns:    the workers, and the work and its report until the read has ended. Everything the work holds is released
//          before waiters are notified, so that the last owner of a Context is normally the caller and not a worker.
#pragma once

#include <headrace/cancel.h>
#include <headrace/status.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/cancel_link.h"
#include "base/fork.h"
#include "base/trace.h"
#include "os/descriptors.h"
#include "transfer/context/worker.h"
#include "transfer/plan/group_cost.h"
#include "transfer/plan/read_report.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

// The work that a Scheduler hands out. Waves are named by number here; failures go to the report.
//
// Threads: run(), resume() and the const queries from any number of threads, each with its own Worker. The other calls
//          for one wave come from one thread at a time, and so do all calls of fill().
class WaveWork {
 public:
  struct Filled {
    bool starved = false;         // nothing was done because no descriptor is available
    bool last = false;            // this is the last wave
    std::uint32_t groups = 0;     // of the wave
    bool opens = false;           // its groups need descriptors
    bool sends_requests = false;  // its groups are requests to a store, which take a worker no time
    bool waits = false;           // the wave is not full: call fill() for it again once lookups_done() is true
  };
  // next < end: no descriptor was available for group `next`. finished: groups that are complete; the others before
  // `next` complete in resume().
  struct RunResult {
    std::uint32_t next = 0, finished = 0;
  };

  virtual ~WaveWork() = default;
  // Called before workers join in. Throws std::bad_alloc.
  virtual void begin() = 0;
  // Whether the wave can be filled; the pool is notified when that becomes true. Called with the scheduler's lock held.
  virtual bool ready(std::uint32_t wave) const {
    (void)wave;
    return true;
  }
  virtual Filled fill(std::uint32_t wave, Worker& worker) = 0;
  virtual bool lookups_done() const noexcept { return true; }  // since the last fill()
  virtual RunResult run(std::uint32_t wave, std::uint32_t begin, std::uint32_t end, Worker& worker) = 0;
  // Groups of all waves whose bytes are in flight; and whether some have completed, for resume().
  virtual std::size_t in_flight() const = 0;
  virtual bool any_completed() const noexcept = 0;
  virtual bool idle() const = 0;  // none in flight, and no completed one left to resume
  // Handles some of the completed reads. Returns the wave of each group that finished by that; valid until the Worker's
  // next call.
  virtual std::span<const std::uint32_t> resume(Worker& worker, std::size_t workers) = 0;
  // The read has been stopped: cancels whatever is in flight. Called at most once, with no lock held.
  virtual void cancel() {}
  // All groups are finished. False: the wave is finished too, with nothing to drain.
  virtual bool launch(std::uint32_t wave, Worker& worker) = 0;
  virtual bool launches() const noexcept = 0;
  virtual bool passed(std::uint32_t wave) = 0;  // queries the device
  virtual void notice(std::uint32_t wave) = 0;  // for the trace: notes completion times
  // Waits for the device. True: settle() may take long, and other waves may be drained meanwhile.
  virtual bool drain(std::uint32_t wave, Worker& worker) = 0;
  virtual void settle(std::uint32_t wave, Worker& worker) = 0;
  // The wave is unused until the next fill(). Called with the scheduler's lock held.
  virtual void release(std::uint32_t wave) = 0;
  // The last call. Ends the report and releases everything that is shared with others.
  virtual void end(std::span<const std::unique_ptr<Worker>> workers) = 0;
};

class Scheduler final : public Workload, public os::DescriptorWaiter, public std::enable_shared_from_this<Scheduler> {
 public:
  static constexpr std::uint32_t kMaxGroupsPerClaim = 64;
  static constexpr std::uint32_t kRequestsPerClaim = 8;  // minimum, where a claim only sends requests to a store

  struct Setup {
    std::uint64_t start_ns = 0;  // of the read, for the trace
    std::uint64_t chunks = 0;    // of the read
    std::uint32_t waves = 1;
    std::vector<std::unique_ptr<Worker>> workers;  // their number limits how many threads take part
    std::shared_ptr<GroupCost> cost;               // what earlier reads of this array have learnt; null: nothing
  };
  // The pool outlives run(). Throws std::bad_alloc.
  Scheduler(WorkerPool& pool, std::unique_ptr<ReadReport> report, std::unique_ptr<WaveWork> work, Setup setup);
  ~Scheduler() override;

  Progress work() override;
  void descriptor_closed() noexcept override;

  // Starts on the pool's workers and returns.
  void start();
  // Starts the read; the calling thread helps until it has ended.
  Status run();
  Status wait();
  bool wait_for(std::chrono::nanoseconds timeout);  // returns done(), then or after `timeout`
  bool done() const;
  void cancel() noexcept;
  // `token` cancels the read as well. Call before the read starts; throws std::bad_alloc.
  void cancel_by(const Cancel& token);
  // REQUIRES: done().
  const Stats& stats() const { return report_->stats(); }
  const std::vector<ChunkError>& errors() const { return report_->errors(); }

 private:
  enum class ClaimKind : std::uint8_t { kNone, kFinished, kFill, kGroups, kResume, kDrain, kGiveUp };
  struct Claim {
    ClaimKind kind = ClaimKind::kNone;
    std::uint32_t wave = 0, begin = 0, end = 0;
    trace::Stage waits_for = trace::Stage::kWait;  // for kNone: the stage that has to progress before there is work
  };
  enum class WaveState : std::uint8_t { kFree, kFilled, kLaunching, kDraining };
  struct WaveSlot {
    WaveState state = WaveState::kFree;
    bool opens = false;           // its groups need descriptors
    bool sends_requests = false;  // its groups are requests to a store
    bool being_drained = false;
    bool few_helpers = false;    // fewer workers were woken than there are groups
    std::uint64_t launched = 0;  // number of its launch within the read
    std::uint32_t groups = 0;
    std::uint32_t next_group = 0;   // first unclaimed
    std::uint32_t groups_left = 0;  // not yet finished
  };
  struct Left {  // groups that were claimed but found no descriptor
    std::uint32_t wave, begin, end;
  };

  Claim claim_locked();
  Claim claim_fill_locked();
  Claim claim_groups_locked();
  Claim claim_drain_locked(bool passed_only);
  trace::Stage waits_for_locked() const;
  void fill(std::uint32_t wave, Worker& worker);
  void run_groups(const Claim& claim, Worker& worker);
  void resume(Worker& worker);
  void drain(std::uint32_t wave, Worker& worker);
  void finish_groups(std::uint32_t wave, std::uint32_t count, Worker& worker);
  // Wakes a worker for other work, if there is any, before this thread launches a wave.
  void hand_over();
  // How many workers are worth waking for so many groups of a wave.
  std::uint32_t helpers_for(std::uint32_t groups, bool sends_requests) const noexcept;
  // A claim of the wave took long: wakes those that are worth it for the unclaimed groups.
  void wake_helpers(std::uint32_t wave);
  // For work that this thread does next, unless it has groups to run that take long.
  void wake_if_groups_are_long(std::size_t tasks) const noexcept;
  void put_back(std::uint32_t wave, std::uint32_t begin, std::uint32_t end);
  void wait_for_descriptor();
  void drop_groups_locked(std::uint32_t wave, std::uint32_t count);
  void release_locked(std::uint32_t wave);
  bool stopped_locked();
  bool complete_locked() const;
  Worker* acquire_worker();
  void release_worker(Worker* worker);

  WorkerPool& pool_;
  const WorkerPool::Notifier notifier_;
  const std::unique_ptr<ReadReport> report_;
  const std::unique_ptr<WaveWork> work_;
  const Setup setup_;
  const std::shared_ptr<GroupCost> cost_;

  mutable std::mutex mutex_;
  base::ProcessOwn<std::condition_variable> ended_;
  // No descriptor is available: nothing is opened until another file of the process is closed.
  std::atomic<bool> starved_{false};
  // Guarded by mutex_:
  std::vector<WaveSlot> waves_;
  std::vector<Worker*> free_lanes_;
  std::vector<std::uint32_t> filled_;  // oldest first
  std::vector<Left> left_;
  std::optional<std::uint32_t> waiting_fill_;  // the wave whose fill() waits for lookups; filling_ stays true meanwhile
  bool filling_ = false, exhausted_ = false, draining_ = false, ending_ = false, done_ = false;
  bool dropped_ = false;         // unclaimed work was dropped when the read was stopped
  bool cancel_claimed_ = false;  // cancel() was claimed
  std::uint64_t queried_ns_ = 0;
  std::uint64_t launches_ = 0;

  std::unique_ptr<base::CancelLink> cancel_link_;  // until the read has ended
};

}  // namespace headrace::transfer
