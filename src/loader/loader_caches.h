// Chunks that a loader keeps for later batches: per array, in device memory, and in host memory for stores without
// files.
//
// Threads: any, once make() has returned; each call takes a lock of its own.
// Owns:    the caches, jointly with the reads that use them.
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
  // Makes a cache for each array's chunks in device memory, if cache_bytes allows it and the device has memory of its
  // own, and a cache for stored chunks of stores without files. Called once, before any other call. Throws
  // std::bad_alloc.
  Status make(const std::shared_ptr<device::Device>& device, std::span<const LoaderArray> arrays,
              const LoaderOptions& options);

  transfer::KeptChunks of(std::size_t array) const;
  // Releases the caches in device memory. The memory is freed once no read uses them.
  void release() noexcept;
  // Whether some of that memory is not freed yet.
  bool has_device_memory() const noexcept;
  void note(LoaderStats& stats) const noexcept;

 private:
  using Each = std::vector<std::shared_ptr<transfer::ChunkCache>>;  // by array; null: none

  base::ProcessOwn<std::mutex> mutable mutex_;
  Each on_device_;                                             // guarded by mutex_
  bool released_ = false;                                      // guarded by mutex_: whether release() dropped a cache
  Each stored_;                                                // in host memory
  std::vector<std::weak_ptr<transfer::ChunkCache>> all_made_;  // device caches; reads may hold them longer
};

}  // namespace headrace::loader
