// Driver: all state of the library in this process.
//
// It is never destroyed, since calls may come from other threads and destructors while the process exits. A forked
// child gets a new, closed Driver, in which handles of the parent are not registered.
//
// Threads: every call from any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "cufile/batch_table.h"
#include "cufile/buffer_table.h"
#include "cufile/cufile_api.h"
#include "cufile/cufile_config.h"
#include "cufile/event_log.h"
#include "cufile/file_table.h"
#include "cufile/io_statistics.h"
#include "cufile/session.h"
#include "cufile/stream_table.h"
#include "cufile/thread_queues.h"

namespace headrace::cufile {

class Driver {
 public:
  static Driver& get();

  CUfileOpError open();         // counted
  CUfileOpError ensure_open();  // counts only if the driver was closed
  CUfileOpError close();
  long uses() const noexcept { return uses_.load(std::memory_order_relaxed); }
  // Null while closed.
  std::shared_ptr<Session> session();

  // Calls `function(config, staged)` under the lock. If a configuration is in use, `config` is that and `staged` is
  // null; else `config` is what opening now would use, and `staged` holds the program's values.
  template <class Function>
  CUfileOpError with_config(Function function) {
    std::lock_guard lock(mutex_);
    if (loaded_) return function(running_, static_cast<StagedConfig*>(nullptr));
    Config config;
    (void)load_config(config);
    apply(staged_, config);
    return function(config, &staged_);
  }
  // Calls `function(running, configured)` after loading the configuration, which is fixed from then until the driver
  // closes. `configured` is the configuration without the program's values.
  template <class Function>
  CUfileOpError with_loaded(Function function) {
    std::lock_guard lock(mutex_);
    if (const CUfileOpError code = load(); code != CU_FILE_SUCCESS) return code;
    return function(running_, configured_);
  }
  // Forgets a loaded configuration, unless the driver is open.
  void unload();

  FileTable files;
  BufferTable buffers;
  BatchTable batches;
  StreamTable streams;
  IoStatistics statistics;
  EventLog log;
  const std::shared_ptr<ThreadQueues> queues = std::make_shared<ThreadQueues>();
  SlabArray gpu_slabs;           // as set; survives closing the driver; access under with_config
  std::map<int, int> p2p_flags;  // by kind of file system; access under with_loaded

 private:
  CUfileOpError load();
  CUfileOpError open_locked();

  std::mutex mutex_;
  std::atomic<long> uses_{0};         // written under mutex_
  bool loaded_ = false;               // guarded by mutex_
  StagedConfig staged_;               // guarded by mutex_
  Config running_, configured_;       // guarded by mutex_
  std::shared_ptr<Session> session_;  // guarded by mutex_
};

}  // namespace headrace::cufile
