// BatchRun: one batch, and the execution of what was submitted to it.
//
// Threads: every call from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cufile/io_call.h"

namespace headrace::cufile {

struct BatchEntry {
  FileTable::Use file;
  Target target;
  std::size_t size = 0;
  off_t file_offset = 0;
  bool write = false;
  int refused = 0;  // an errno or code with which the entry fails at once
  void* cookie = nullptr;
  bool ended = false;
};

class BatchRun {
 public:
  explicit BatchRun(unsigned capacity) : capacity_(capacity) { events_.reserve(capacity); }

  // Reserves room for `count` entries; false if there is not enough.
  bool take_room(unsigned count);
  void end(BatchEntry& entry, CUfileStatus_t status, std::int64_t result) noexcept;
  // Waits until `least` events (or all that are outstanding, if fewer) are available or the deadline has passed; moves
  // up to `room`.
  unsigned reap(unsigned least, unsigned room, CUfileIOEvents_t* events,
                const std::chrono::steady_clock::time_point* deadline);
  void cancel();
  bool cancelled();
  void wait_until_idle();
  void give_up_room(unsigned count);  // of entries that never ran

 private:
  const unsigned capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned taken_ = 0;                    // guarded by mutex_: in flight or not reaped
  std::vector<CUfileIOEvents_t> events_;  // guarded by mutex_; has capacity for all
  bool cancelled_ = false;                // guarded by mutex_; until the next submit
};

// The entries of one submit call.
struct BatchJob {
  std::shared_ptr<BatchRun> batch;
  Driver* driver = nullptr;
  std::vector<BatchEntry> entries;
  std::uint64_t submitted_ns = 0;
};

// Ends every entry exactly once.
void run_batch(BatchJob& job) noexcept;

}  // namespace headrace::cufile
