// ColdReads: the reads of files and stores that one read has given to the I/O service, from submission until a worker
// takes the completed ones.
//
// Threads: every call from any number of threads, each with its own jobs.
// Owns:    nothing; jobs belong to their wave, and live until they have been taken and released.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "store/store.h"
#include "transfer/fetch/io_service.h"
#include "transfer/pagecache/router.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

class ColdReads final : public IoSink {
 public:
  // `notifier` is called whenever reads complete.
  ColdReads(Router& router, WorkerPool::Notifier notifier);

  // Opens `source`, the object `key`, for direct reads if job.direct asks for that and it is possible; `own` then holds
  // the new descriptor instead of its old one. Otherwise the engine reads through the page cache.
  void open_direct(ReadJob& job, store::Store& store, std::string_view key, const store::ByteSource& source,
                   store::ByteSource& own) const;
  // Takes all jobs or none: std::bad_alloc is thrown before any job is queued.
  void start(IoService& service, std::span<ReadJob* const> jobs);

  bool any_completed() const noexcept { return completed_count_.load(std::memory_order_acquire) != 0; }
  // Takes some completed reads: fewer the more workers there are, and at most out.capacity(). Overwrites `out`.
  void take(std::vector<ReadJob*>& out, std::size_t workers);
  std::size_t in_flight() const;
  // Nothing is in flight, and all completed reads have been taken.
  bool idle() const;

  // Some file systems allow opening a file with O_DIRECT but reject the reads. Reads such a job through the page cache,
  // and prevents later direct reads of the file. Waits for the disk.
  void read_refused(ReadJob& job) const;

  // Cancels reads by stores, current and later ones: each completes as kCancelled, or as read if it was too late.
  void cancel(IoService& service) noexcept;

  void on_io_done(std::span<ReadJob* const> jobs) noexcept override;
  bool cancelled() const noexcept override { return cancelled_.load(); }

 private:
  Router& router_;
  const WorkerPool::Notifier notifier_;
  mutable std::mutex mutex_;
  std::vector<ReadJob*> completed_;           // guarded by mutex_; has capacity for all in flight
  std::size_t in_flight_ = 0;                 // guarded by mutex_
  std::atomic<std::size_t> completed_count_;  // completed_.size()
  std::atomic<bool> cancelled_{false};
};

}  // namespace headrace::transfer
