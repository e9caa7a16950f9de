// ColdReads: ranges of files and stores that the I/O service reads for one read, from when they are handed over until a
// worker takes what has come.
//
// Threads: every call from any number of threads, each with jobs of its own.
// Owns:    nothing; jobs are their wave's, and live until they were taken and released.
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
  // `notifier` is told whenever something has come.
  ColdReads(Router& router, WorkerPool::Notifier notifier);

  // A descriptor for direct reads of `source`, the object `key`, where job.direct asks for one and it can be had:
  // `own` then holds it in place of what it held. Elsewhere the engine reads through the page cache by its own means.
  void open_direct(ReadJob& job, store::Store& store, std::string_view key, const store::ByteSource& source,
                   store::ByteSource& own) const;
  // All or none: throws std::bad_alloc before any job is taken.
  void start(IoService& service, std::span<ReadJob* const> jobs);

  bool any_came() const noexcept { return came_count_.load(std::memory_order_acquire) != 0; }
  // Some of what has come: the more workers there are, the fewer, at most out.capacity(). Replaces what `out` held.
  void take(std::vector<ReadJob*>& out, std::size_t workers);
  std::size_t in_flight() const;
  // Nothing is in flight, and what came was taken.
  bool idle() const;

  // Some file systems open a file past the page cache and refuse to read it so: reads such a job through the cache, and
  // has the file opened so no more. Waits for the disk.
  void read_refused(ReadJob& job) const;

  // What stores read, now and later, is not wanted any more: it comes as kCancelled, or as it has been read.
  void cancel(IoService& service) noexcept;

  void on_io_done(std::span<ReadJob* const> jobs) noexcept override;
  bool cancelled() const noexcept override { return cancelled_.load(); }

 private:
  Router& router_;
  const WorkerPool::Notifier notifier_;
  mutable std::mutex mutex_;
  std::vector<ReadJob*> came_;           // guarded by mutex_; has room for all that are in flight
  std::size_t in_flight_ = 0;            // guarded by mutex_
  std::atomic<std::size_t> came_count_;  // of came_
  std::atomic<bool> cancelled_{false};
};

}  // namespace headrace::transfer
