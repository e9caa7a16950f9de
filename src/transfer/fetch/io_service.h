// IoService: the one thread that owns a Context's I/O engine, and starts what users' stores read.
//
// Workers hand over a batch of jobs at a time; the service gives each a piece of a slab, submits them
// together and reports each as it completes. A job that finds the slab full waits its turn, which is the back-pressure
// that bounds memory. Files and users' stores have a slab each: what a network has under way is more than a disk
// needs, and is not registered with an engine. Direct reads are widened to the alignment the descriptor asks for.
//
// Threads: every call from any thread; IoSink is called on the service's thread, and on those of users' stores.
// Owns:    engine, slabs, thread. A job and its sink stay the caller's and must live until on_io_done and, for the
//          bytes, until release().
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/engine.h"
#include "transfer/fetch/store_reads.h"
#include "transfer/threads/near_threads.h"

namespace headrace::transfer {

class IoSink {
 public:
  virtual ~IoSink() = default;
  // All jobs of `jobs` are complete; called with no lock held.
  virtual void on_io_done(std::span<ReadJob* const> jobs) noexcept = 0;
  // Its jobs are not wanted any more. A lock may be held.
  virtual bool cancelled() const noexcept { return false; }
};

struct ReadJob {
  // In
  int fd = -1;
  StoreRead* read = nullptr;  // a store's, and not a file's: `data` and `status` are then left to Fetcher::finish()
  bool direct = false;        // fd was opened with O_DIRECT
  std::uint64_t offset = 0, length = 0;
  std::span<std::byte> place;  // of a store's: where it is read to; empty: memory of the service's own
  IoSink* sink = nullptr;
  std::uint64_t user = 0;
  // Out
  std::span<const std::byte> data;  // `length` bytes, until release(), where the status is OK
  std::uint64_t read_bytes = 0;     // what crossed from the file, alignment included
  double seconds = 0;               // in flight: from when it had its place in memory
  Status status;
  // The service's own
  std::span<std::byte> slot;
  std::uint64_t aligned_offset = 0;
  std::uint32_t alignment = 1;
  std::uint64_t start_ns = 0;  // when it was given its place in memory
  bool dedicated = false;

  std::span<std::byte> memory() const noexcept { return place.empty() ? slot : place; }
};

struct IoServiceOptions {
  std::string engine = "auto";
  unsigned depth = 64;
  std::size_t slab_bytes = std::size_t{64} << 20;
  std::size_t store_slab_bytes = std::size_t{64} << 20;  // of what users' stores read; made at the first such job
  std::shared_ptr<NearThreads> near = nullptr;           // that the thread follows
};

class IoService {
 public:
  static Result<std::unique_ptr<IoService>> create(const IoServiceOptions& options);
  ~IoService();

  const io::EngineInfo& engine() const noexcept;
  // What the engine can do, and what became of registering the slab.
  std::string engine_features() const;
  const std::string& refused_engines() const noexcept;  // one line each, "" if the first choice worked

  // All or none: throws std::bad_alloc before any job is taken.
  void submit(std::span<ReadJob* const> jobs);
  void release(std::span<ReadJob* const> jobs) noexcept;
  // Of a sink that is cancelled(): jobs of stores end as soon as their stores let them, and without having been started
  // where they wait. Files are read.
  void cancel(IoSink& sink) noexcept;

 private:
  class Impl;
  explicit IoService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::transfer
