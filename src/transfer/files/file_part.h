// FilePart: one transfer between a file and host memory; and FileCrew, the pool threads that perform the buffered ones.
//
// Threads: FileCrew::submit and collect belong to the queue's thread; work() runs on any number of workers.
#pragma once

#include <headrace/file.h>
#include <headrace/status.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fork.h"
#include "os/file_handle.h"
#include "transfer/pagecache/mapped_cache.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

struct FilePart {
  enum class Kind : std::uint8_t { kBuffered, kDirect, kPath };
  Kind kind = Kind::kBuffered;
  bool write = false;
  // Stop as soon as a page is missing: the caller then reads it with O_DIRECT instead.
  bool stop_at_missing_page = false;
  bool page_was_missing = false;  // out
  bool small = false;             // for the queue's own thread
  bool straight = false;          // kDirect: the engine reads into device memory; the slot is the fallback
  bool prefetch = false;  // ask the kernel, without waiting, to read the whole granule around it into the page cache
  std::uint32_t request = 0;
  os::FileHandle* handle = nullptr;
  const char* path = nullptr;  // kPath
  std::uint64_t offset = 0, length = 0;
  std::byte* memory = nullptr;  // the caller's
  // Where the bytes are in host memory: the slot, or the caller's memory itself. For a straight read the caller's
  // memory, which is not host memory.
  std::byte* host = nullptr;
  std::byte* slot = nullptr;  // null: in place
  std::uint64_t slot_bytes = 0;
  std::uint64_t started_ns = 0;  // for direct parts; 0 unless a trace is recorded
  // Out
  Status status;
  std::uint64_t file_bytes = 0;  // that were read or written
  std::uint64_t system_calls = 0;
  std::shared_ptr<MappedWindow> window;  // kPath: the device copies the bytes from here
  std::shared_ptr<MappedFile> unmapped;  // kPath: could be mapped the next time
};

class FileCrew final : public Workload, public std::enable_shared_from_this<FileCrew> {
 public:
  FileCrew(WorkerPool& pool, MappedCache* mapped, std::shared_ptr<device::Device> device, std::size_t threads,
           std::size_t capacity);

  // Wakes threads for these parts; does not allocate.
  void submit(std::span<FilePart* const> parts);
  // Moves completed parts into `out`, whose capacity must suffice for all parts; with `wait`, sleeps until one
  // completes or `timeout` has passed.
  void collect(std::vector<FilePart*>& out, bool wait, std::chrono::nanoseconds timeout);
  // Performs one part that no worker has started, on the queue's thread; false if there is none.
  bool help();
  // While the flag is set, a worker that completes parts calls the function, because the queue's thread sleeps where
  // some_done_ does not reach it.
  std::atomic<bool> notify_elsewhere{false};
  std::function<void()> elsewhere;
  // Stops idle threads from spinning: on virtual machines that takes CPU time from the disk.
  std::atomic<bool> quiet{false};
  // REQUIRES: nothing outstanding. Lets the pool drop the crew.
  void close();
  std::size_t outstanding() const noexcept { return outstanding_; }

  // Performs one part on the calling thread.
  void perform(FilePart& part) const;

  Progress work() override;

 private:
  std::size_t max_working() const noexcept;
  bool spin();
  void perform_path(FilePart& part) const;
  void read_blocking(FilePart& part, int fd) const;

  WorkerPool& pool_;
  MappedCache* const mapped_;  // null: the mapped path is disabled
  const std::shared_ptr<device::Device> device_;
  const unsigned usable_cpus_;
  const std::size_t threads_;
  std::atomic<std::size_t> working_{0}, spinning_{0};  // threads in work(), and those of them that spin
  std::atomic<std::size_t> waiting_{0};                // parts that no thread has taken
  bool added_ = false;
  std::size_t outstanding_ = 0;  // used by the queue's thread only
  std::mutex mutex_;
  base::ProcessOwn<std::condition_variable> some_done_;
  std::vector<FilePart*> todo_;  // guarded by mutex_; from next_ on
  std::size_t next_ = 0;         // guarded by mutex_
  std::vector<FilePart*> done_;  // guarded by mutex_
  bool closed_ = false;          // guarded by mutex_
};

}  // namespace headrace::transfer
