// Staging: pinned slabs, device slabs and streams, kept between reads.
//
// Pinning memory takes milliseconds, so slabs are reused from wave to wave and from read to read. A read begins with
// the slots that exist, at least one, and gets the others while it runs, as other threads make them.
//
// Threads: every call from any thread.
// Owns:    everything it lends; the budget bounds how much exists at a time.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "device/device.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

struct StagingSlot {
  std::shared_ptr<device::Device> device;
  std::span<std::byte> pinned, on_device;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<device::Event> event;
  std::unique_ptr<device::Event> copied;  // recorded only for a trace, where decoding follows the copy
  bool used = false;                      // a launched wave has used it, so its first-use initialisation is done
  ~StagingSlot();
};

class StagingPool {
 public:
  struct Bytes {
    std::size_t pinned = 0, device = 0;
  };
  class Loan;
  class Making;

  // REQUIRES: the slot's stream is idle.
  void give(std::unique_ptr<StagingSlot> slot) noexcept;

 private:
  // What slots have to be like.
  struct Kind {
    std::shared_ptr<device::Device> device;
    Bytes slabs;
    bool fits(const StagingSlot& slot) const noexcept {
      return slot.device == device && slot.pinned.size() >= slabs.pinned && slot.on_device.size() >= slabs.device;
    }
    bool covers(const Kind& other) const noexcept {
      return device == other.device && slabs.pinned >= other.slabs.pinned && slabs.device >= other.slabs.device;
    }
  };
  void take_too_small_locked(const device::Device& device, Bytes keep, std::vector<std::unique_ptr<StagingSlot>>& out);
  void give_locked(std::unique_ptr<StagingSlot> slot) noexcept;

  std::mutex mutex_;
  base::ProcessOwn<std::condition_variable> arrived_;
  std::vector<std::unique_ptr<StagingSlot>> free_;  // guarded by mutex_
  std::vector<std::shared_ptr<Making>> making_;     // guarded by mutex_: all that are not done
};

// The slots that a loan lacked. The pool outlives it.
class StagingPool::Making {
 public:
  // Makes one slot for the loan, or for the pool if the loan has ended. Nothing if enough have been made, or one could
  // not be.
  void make_one() noexcept;

 private:
  friend class StagingPool;
  friend class Loan;
  Making(StagingPool& pool, Kind kind, std::size_t count, Loan* loan)
      : pool_(pool), kind_(std::move(kind)), to_make_(count), loan_(loan) {}
  std::size_t left_locked() const noexcept { return to_make_ + being_made_; }

  StagingPool& pool_;
  const Kind kind_;
  std::size_t to_make_, being_made_ = 0;  // guarded by the pool's mutex
  Loan* loan_;                            // guarded by the pool's mutex; null: the loan has ended
  bool adopted_ = false;                  // guarded by the pool's mutex: those being made were begun for another loan
};

// The slots of one read. It takes them as they arrive; those that arrive after its end stay with the pool.
class StagingPool::Loan {
 public:
  // `count` slots with slabs of at least these sizes: free ones, then those that are just being made for loans that
  // have ended. If that is not enough, making() has to make the rest, no more are begun for loans that have ended, and
  // free slots of the device that are too small are destroyed, except for as much as `keep` allows. The notifier is
  // called when a slot arrives. The pool outlives the loan. Throws std::bad_alloc.
  Loan(StagingPool& pool, const std::shared_ptr<device::Device>& device, Bytes slabs, std::size_t count, Bytes keep,
       WorkerPool::Notifier notifier);
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  // Null: every slot exists or is being made. Otherwise make_one() is to be called missing() times.
  const std::shared_ptr<Making>& making() const noexcept { return making_; }
  std::size_t missing() const noexcept { return missing_; }

  // The first slot. Waits for it, or makes it.
  Result<std::unique_ptr<StagingSlot>> take_first();
  // Null: none has arrived that was not taken. Fails if one could not be made.
  Result<std::unique_ptr<StagingSlot>> take();
  bool ready() const;  // take() returns a slot or fails
  bool complete() const noexcept { return wanted_.load(std::memory_order_acquire) == 0; }  // all have been taken

 private:
  friend class Making;
  Result<std::unique_ptr<StagingSlot>> take_locked();

  StagingPool& pool_;
  const WorkerPool::Notifier notifier_;
  std::atomic<std::size_t> wanted_;  // slots still to be taken; changes with the pool's mutex held
  std::size_t missing_ = 0;
  std::shared_ptr<Making> making_;
  // Guarded by the pool's mutex:
  std::vector<std::unique_ptr<StagingSlot>> here_;  // arrived and not taken
  Status failure_;
};

}  // namespace headrace::transfer
