// Resources: what all reads of one Context share; the implementation of headrace::Context.
//
// Threads: every call from any thread.
// Owns:    worker pool, I/O service (started by the first cold read), staging slots, worker memory.
#pragma once

#include <headrace/context.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "transfer/context/staging.h"
#include "transfer/context/worker.h"
#include "transfer/fetch/io_service.h"
#include "transfer/fetch/straight_reads.h"
#include "transfer/pagecache/mapped_cache.h"
#include "transfer/pagecache/reuse_tracker.h"
#include "transfer/placement/placement.h"
#include "transfer/plan/index_cache.h"
#include "transfer/threads/near_threads.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

class Resources {
 public:
  static Result<std::shared_ptr<Resources>> create(const ContextOptions& options);
  ~Resources();

  const ContextOptions& options() const noexcept { return options_; }
  unsigned threads() const noexcept { return threads_; }
  WorkerPool& pool() noexcept { return *pool_; }
  StagingPool& staging() noexcept { return staging_; }
  MappedCache& mapped() noexcept { return *mapped_; }
  ReuseTracker& reuse() noexcept { return reuse_; }
  IndexCache& indices() noexcept { return indices_; }
  // ContextOptions::stored_budget_bytes.
  const std::shared_ptr<base::MemoryBudget>& stored_memory() const noexcept { return stored_memory_; }
  NearThreads& near() noexcept { return *near_; }
  PlacementPriors& placement() noexcept { return placement_; }

  // Limit for parking bytes that the read neither planned nor charged: several of them fit the I/O service's slab.
  std::uint64_t max_parked_bytes() const noexcept { return slab_bytes() / 4; }
  // The I/O service's memory for reads of users' stores, which bounds the bytes in flight from them.
  std::size_t store_slab_bytes() const noexcept;
  // Starts the service on first use.
  Result<IoService*> io();
  // The service for reads into the device's memory, made on first use; it stays until this ends. Throws std::bad_alloc.
  StraightService& straight(const std::shared_ptr<device::Device>& device);
  // What is known about reads into devices' memory, one line each. Throws std::bad_alloc.
  std::string straight_report() const;
  // kForked in a child of the process that made this.
  Status check_usable() const;

  std::unique_ptr<WorkerMemory> take_worker_memory();
  void give_worker_memory(std::unique_ptr<WorkerMemory> memory) noexcept;

 private:
  explicit Resources(const ContextOptions& options);
  std::size_t slab_bytes() const noexcept;  // of the I/O service's slab for files
  IoServiceOptions io_options() const;

  ContextOptions options_;
  const std::shared_ptr<base::MemoryBudget> stored_memory_;
  const std::shared_ptr<NearThreads> near_;
  const unsigned threads_;
  std::uint64_t fork_generation_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<WorkerMemory>> worker_memory_;  // guarded by mutex_
  std::uint64_t kept_worker_bytes_ = 0;                       // guarded by mutex_: of worker_memory_
  std::unique_ptr<IoService> io_;                             // guarded by mutex_
  std::vector<std::unique_ptr<StraightService>> straight_;    // guarded by mutex_: one per device
  StagingPool staging_;
  ReuseTracker reuse_;
  IndexCache indices_;
  PlacementPriors placement_;
  std::unique_ptr<MappedCache> mapped_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace headrace::transfer
