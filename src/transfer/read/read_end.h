// ReadEnd: a final step over the elements of a read, which is part of the read: it runs before waiters are notified.
//
// Threads: finish() on the worker thread that ends the read; destroyed by whoever releases the read.
#pragma once

#include <headrace/stats.h>
#include <headrace/status.h>

#include <memory>

#include "transfer/read/chunk_cache.h"

namespace headrace::transfer {

class ReadEnd {
 public:
  virtual ~ReadEnd() = default;
  // Called at most once, after a read that succeeded: all elements are in place, and no queued work touches them. Adds
  // its time to `stats`. Its failure is the read's failure. Throws std::bad_alloc.
  virtual Status finish(Stats& stats) = 0;
};

// Optional inputs of a read.
struct ReadExtras {
  KeptChunks kept;               // caches of the plan's array, which the read uses and fills
  std::unique_ptr<ReadEnd> end;  // null: nothing
};

}  // namespace headrace::transfer
