// Chunks that a loader keeps for later batches: of each array, in the device's memory, and in the host's what stores
// without files have given.
//
// Threads: from any, once the caches are made; each call takes a lock of its own.
// Owns:    the caches, beside the reads that use them.
#pragma once

#include <headrace/loader.h>

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/fork.h"
#include "device/device.h"
#include "transfer/read/chunk_cache.h"

namespace headrace::loader {

class Caches {
 public:
  // A place for each array's decoded chunks, where there is memory for them and the device has its own, and for stored
  // ones of stores without files. Once, before any other call. Throws std::bad_alloc.
  Status make(const std::shared_ptr<device::Device>& device, std::span<const LoaderArray> arrays,
              const LoaderOptions& options);

  transfer::KeptChunks of(std::size_t array) const;
  // The device's memory: as soon as no read uses it any more.
  void release() noexcept;
  // Some of it is not free yet.
  bool has_device_memory() const noexcept;
  void note(LoaderStats& stats) const noexcept;

 private:
  using Each = std::vector<std::shared_ptr<transfer::ChunkCache>>;  // of each array; null: none

  base::ProcessOwn<std::mutex> mutable mutex_;
  Each on_device_;                                             // guarded by mutex_
  bool released_ = false;                                      // guarded by mutex_: on_device_ has been
  Each stored_;                                                // in memory of the host
  std::vector<std::weak_ptr<transfer::ChunkCache>> all_made_;  // for the device: reads have them longer than on_device_
};

}  // namespace headrace::loader
