// CacheTask: work for the threads of a DiskCache.
#pragma once

namespace headrace::cache {

// Work that may block on a disk or a network; runs on a thread of the cache.
class CacheTask {
 public:
  virtual void run() noexcept = 0;

  CacheTask* next_task = nullptr;  // used by the DiskCache

 protected:
  ~CacheTask() = default;
};

}  // namespace headrace::cache
