// IoService: the thread that owns a Context's I/O engine, and that starts reads by users' stores.
//
// Workers submit batches of jobs. The service gives each job a piece of a slab, submits the jobs together and reports
// each as it completes. A job that finds the slab full waits, which is the back-pressure that bounds memory. Files and
// users' stores have separate slabs: a network needs more bytes in flight than a disk, and the stores' slab is not
// registered with an engine. Direct reads are widened to the alignment that the descriptor requires.
//
// Threads: every call from any thread; IoSink is called on the service's thread and on threads of users' stores.
// Owns:    engine, slabs, thread. Jobs and sinks belong to the caller: they must live until on_io_done(), and a job
//          whose bytes are used until release().
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "io/engine.h"
#include "transfer/fetch/store_reads.h"
#include "transfer/threads/near_threads.h"

namespace headrace::transfer {

class IoSink {
 public:
  virtual ~IoSink() = default;
  // All jobs of `jobs` are complete. Called with no lock held.
  virtual void on_io_done(std::span<ReadJob* const> jobs) noexcept = 0;
  // Whether its jobs have been cancelled. May be called with a lock held.
  virtual bool cancelled() const noexcept { return false; }
};

struct ReadJob {
  // In
  int fd = -1;
  StoreRead* read = nullptr;  // set for a store's read: `data` and `status` are then left to Fetcher::finish()
  bool direct = false;        // fd was opened with O_DIRECT
  bool straight = false;      // `place` is memory of the service's device, of `length` bytes; no CPU touches `data`
  std::uint64_t offset = 0, length = 0;
  std::span<std::byte> place;  // the destination, for a store's read or a straight one; empty: memory of the service
  IoSink* sink = nullptr;
  std::uint64_t user = 0;
  // Out
  std::span<const std::byte> data;  // `length` bytes, valid until release(), if the status is OK
  std::uint64_t read_bytes = 0;     // bytes read from the file, alignment included
  double seconds = 0;               // time in flight, from when it got its place in memory
  Status status;
  // The service's own
  std::span<std::byte> slot;
  std::uint64_t aligned_offset = 0;
  std::uint32_t alignment = 1;
  std::uint64_t start_ns = 0;  // when it got its place in memory
  bool dedicated = false;

  std::span<std::byte> memory() const noexcept { return place.empty() ? slot : place; }
};

struct IoServiceOptions {
  std::string engine = "auto";
  unsigned depth = 64;
  std::size_t slab_bytes = std::size_t{64} << 20;
  std::size_t store_slab_bytes = std::size_t{64} << 20;  // for reads by users' stores; allocated by the first such job
  std::shared_ptr<NearThreads> near = nullptr;           // whose CPU binding the thread follows
  std::shared_ptr<device::Device> to_device = nullptr;   // the engine must reach its memory; only for straight jobs
  std::string* refused = nullptr;                        // receives what refused_engines() returns, even on failure
};

class IoService {
 public:
  static Result<std::unique_ptr<IoService>> create(const IoServiceOptions& options);
  ~IoService();

  const io::EngineInfo& engine() const noexcept;
  // What the engine can do, and the outcome of registering the slab.
  std::string engine_features() const;
  const std::string& refused_engines() const noexcept;  // one line each, "" if the first choice worked

  // Takes all jobs or none: std::bad_alloc is thrown before any job is queued.
  void submit(std::span<ReadJob* const> jobs);
  void release(std::span<ReadJob* const> jobs) noexcept;
  // For a sink that is cancelled(): stops its jobs of stores as soon as the stores allow it; those still waiting are
  // never started. Reads of files go on.
  void cancel(IoSink& sink) noexcept;

 private:
  class Impl;
  explicit IoService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::transfer
