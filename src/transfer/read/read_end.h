// ReadEnd: what somebody does with the elements of a read behind it, as a part of it: before whoever waits is told.
//
// Threads: finish() on the thread that ends the read, a worker's; freed by whoever lets go of the read.
#pragma once

#include <headrace/stats.h>
#include <headrace/status.h>

#include <memory>

#include "transfer/read/chunk_cache.h"

namespace headrace::transfer {

class ReadEnd {
 public:
  virtual ~ReadEnd() = default;
  // Once at most, of a read that went well: all elements are in place, and nothing is queued for them any more. Adds to
  // `stats` what it took. What fails is the read's failure. Throws std::bad_alloc.
  virtual Status finish(Stats& stats) = 0;
};

// What a read is given beside what it reads.
struct ReadExtras {
  KeptChunks kept;               // of the plan's array: chunks that are taken, and added to
  std::unique_ptr<ReadEnd> end;  // null: nothing
};

}  // namespace headrace::transfer
