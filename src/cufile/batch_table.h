// BatchTable: batches, which are lists of requests that are submitted together and reaped as they complete.
//
// Threads: every call from any thread.
// Owns:    a few threads that execute batches, started by the first submit; they end with the driver's last close.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cufile/cufile_api.h"

namespace headrace::cufile {

class Driver;
class BatchRun;
struct BatchJob;

class BatchTable {
 public:
  BatchTable();
  ~BatchTable();
  CUfileOpError set_up(Driver& driver, CUfileBatchHandle_t* handle, unsigned capacity);
  CUfileOpError submit(Driver& driver, CUfileBatchHandle_t handle, unsigned count, const CUfileIOParams_t* entries);
  CUfileOpError get_status(CUfileBatchHandle_t handle, unsigned least, unsigned* count, CUfileIOEvents_t* events,
                           const struct timespec* timeout);
  CUfileOpError cancel(CUfileBatchHandle_t handle);
  // Cancels entries that have not started and waits for the rest.
  bool destroy(CUfileBatchHandle_t handle);
  void end_all() noexcept;

 private:
  std::shared_ptr<BatchRun> find(CUfileBatchHandle_t handle);
  void start_threads(unsigned wanted);
  void run();

  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<BatchRun>> batches_;  // guarded by mutex_
  std::uintptr_t next_;                                                    // guarded by mutex_
  std::condition_variable work_;
  std::deque<BatchJob> jobs_;         // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_
  std::size_t idle_ = 0;              // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
};

}  // namespace headrace::cufile
