// Scheduler: who does what next in one read: waves are filled, their groups claimed in runs by workers, launched once
// all are through, drained, and filled again. It knows nothing of I/O, codecs or devices.
//
// One wave is kept filled ahead; while that waits for a user's store, everything else goes on. Claims are long at first
// and single groups at the end, so that workers end together. A wave that the device is through with goes first,
// because its memory is wanted. Where no descriptor is left, what needs one is claimed again once a file has been
// closed. The lock is taken per claim and per wave, never per group.
//
// Threads: work() on any number of threads; the rest from any thread.
// Owns:    the work and its report until the read has ended; workers. What the work holds is let go of before the end
// is
//          told, so that the last owner of a Context is normally the caller and not a worker.
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
#include "transfer/plan/read_report.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

// What a Scheduler hands out. Waves are numbers here; what fails says so to the report.
//
// Threads: run(), resume() and the questions from any number of threads, each with a Worker of its own; the rest of one
// wave from one thread at a time, and fill() of any wave as well.
class WaveWork {
 public:
  struct Filled {
    bool starved = false;      // nothing was done: there is no descriptor for it
    bool last = false;         // nothing is left after this wave
    std::uint32_t groups = 0;  // of the wave
    bool opens = false;        // its groups need descriptors
    bool asks = false;         // a store is asked for them, which takes no time
    bool waits = false;        // the wave is not full: it is to be filled on once lookups_came()
  };
  // next < end: there was no descriptor for that group. finished: groups that are through; the others, up to `next`,
  // come back by resume().
  struct Ran {
    std::uint32_t next = 0, finished = 0;
  };

  virtual ~WaveWork() = default;
  // Workers are about to help. Throws std::bad_alloc.
  virtual void begin() = 0;
  virtual Filled fill(std::uint32_t wave, Worker& worker) = 0;
  virtual bool lookups_came() const noexcept { return true; }  // since the last fill()
  virtual Ran run(std::uint32_t wave, std::uint32_t begin, std::uint32_t end, Worker& worker) = 0;
  // Groups that wait for what others read, in all waves; and whether some of it has come, for resume().
  virtual std::size_t in_flight() const = 0;
  virtual bool any_came() const noexcept = 0;
  virtual bool idle() const = 0;  // none in flight, none has come
  // Some of what has come: the wave of each group that is through by that, until the Worker's next call.
  virtual std::span<const std::uint32_t> resume(Worker& worker, std::size_t workers) = 0;
  // The read has been stopped: what it waits for is not wanted any more. Once at most, with no lock held.
  virtual void give_up() {}
  // All groups are through. False: so is the wave.
  virtual bool launch(std::uint32_t wave, Worker& worker) = 0;
  virtual bool launches() const noexcept = 0;
  virtual bool passed(std::uint32_t wave) = 0;  // a question to the device
  virtual void notice(std::uint32_t wave) = 0;  // for the trace
  // Waits for the device. True: settle() may take long, and others need not wait for it.
  virtual bool drain(std::uint32_t wave, Worker& worker) = 0;
  virtual void settle(std::uint32_t wave, Worker& worker) = 0;
  // The wave is not used any more, until it is filled again. With the scheduler's lock held.
  virtual void release(std::uint32_t wave) = 0;
  // Nothing is called after this. Ends the report and lets go of all that others own.
  virtual void end(std::span<const std::unique_ptr<Worker>> workers) = 0;
};

class Scheduler final : public Workload, public os::DescriptorWaiter, public std::enable_shared_from_this<Scheduler> {
 public:
  static constexpr std::uint32_t kMaxGroupsPerClaim = 64;
  static constexpr std::uint32_t kAskedPerClaim = 8;  // at least, where a store is only asked for them

  struct Setup {
    std::uint64_t start_ns = 0;  // of the read, for the trace
    std::uint64_t chunks = 0;    // of the read
    std::uint32_t waves = 1;
    std::vector<std::unique_ptr<Worker>> workers;  // one for each worker at most
  };
  // The pool outlives run(). Throws std::bad_alloc.
  Scheduler(WorkerPool& pool, std::unique_ptr<ReadReport> report, std::unique_ptr<WaveWork> work, Setup setup);
  ~Scheduler() override;

  Progress work() override;
  void descriptor_closed() noexcept override;

  // Starts on the pool's workers and returns.
  void start();
  // Starts and lets the calling thread work along until the read has ended.
  Status run();
  Status wait();
  bool wait_for(std::chrono::nanoseconds timeout);  // done(), then or after `timeout`
  bool done() const;
  void cancel() noexcept;
  // `token` cancels the read as well. Before it is started; throws std::bad_alloc.
  void cancel_by(const Cancel& token);
  // REQUIRES: done().
  const Stats& stats() const { return report_->stats(); }
  const std::vector<ChunkError>& errors() const { return report_->errors(); }

 private:
  enum class ClaimKind : std::uint8_t { kNone, kFinished, kFill, kGroups, kResume, kDrain, kGiveUp };
  struct Claim {
    ClaimKind kind = ClaimKind::kNone;
    std::uint32_t wave = 0, begin = 0, end = 0;
    trace::Stage waits_for = trace::Stage::kWait;  // of kNone: what has to go on before there is something to do
  };
  enum class WaveState : std::uint8_t { kFree, kFilled, kLaunching, kDraining };
  struct WaveSlot {
    WaveState state = WaveState::kFree;
    bool opens = false;  // its groups need descriptors
    bool asks = false;   // a store is asked for them
    bool being_drained = false;
    std::uint64_t launched = 0;  // of all launches of the read, which one
    std::uint32_t groups = 0;
    std::uint32_t next_group = 0;   // first unclaimed
    std::uint32_t groups_left = 0;  // not yet finished
  };
  struct Left {  // groups that were claimed, and found no descriptor
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

  mutable std::mutex mutex_;
  base::ProcessOwn<std::condition_variable> ended_;
  std::atomic<bool> starved_{false};  // nothing is opened before another file of the process is closed
  // Guarded by mutex_:
  std::vector<WaveSlot> waves_;
  std::vector<Worker*> free_lanes_;
  std::vector<std::uint32_t> filled_;  // oldest first
  std::vector<Left> left_;
  std::optional<std::uint32_t> waiting_fill_;  // the wave that is filled on after lookups; filling_ meanwhile
  bool filling_ = false, exhausted_ = false, draining_ = false, ending_ = false, done_ = false;
  bool dropped_ = false;  // what was not claimed when the read was stopped
  bool gave_up_ = false;  // what others read for it
  std::uint64_t asked_ns_ = 0;
  std::uint64_t launches_ = 0;

  std::unique_ptr<base::CancelLink> cancel_link_;  // until the read has ended
};

}  // namespace headrace::transfer
