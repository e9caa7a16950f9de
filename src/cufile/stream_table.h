// StreamTable: streams that a program has registered, and state of the operations queued on streams.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cufile/cufile_api.h"
#include "device/device.h"

namespace headrace::cufile {

class Session;
class StreamOperation;

// Pinned memory that stream operations stage through; reused by later ones.
struct StreamSlab {
  std::shared_ptr<device::Device> device;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};

class StreamTable {
 public:
  StreamTable();
  ~StreamTable();
  CUfileOpError add(CUstream stream, unsigned flags);
  CUfileOpError remove(CUstream stream);
  unsigned flags(CUstream stream);
  void clear() noexcept;  // clears registrations; queued operations continue

  Result<StreamSlab> take_slab(const std::shared_ptr<device::Device>& device, std::size_t bytes);
  void give_slab(StreamSlab slab) noexcept;
  // Releases a session later, on a thread that may call the device: releasing the last owner destroys queues and
  // threads.
  void retire(std::shared_ptr<Session> session) noexcept;
  void end_retired() noexcept;
  // Keeps the operation for ever: a graph may run it again at any time.
  void keep(std::unique_ptr<StreamOperation> operation);

 private:
  std::mutex mutex_;
  std::unordered_map<CUstream, unsigned> streams_;          // guarded by mutex_
  std::vector<std::shared_ptr<Session>> retired_;           // guarded by mutex_; sessions of operations that have ended
  std::vector<StreamSlab> slabs_;                           // guarded by mutex_
  std::vector<std::unique_ptr<StreamOperation>> captured_;  // guarded by mutex_
};

}  // namespace headrace::cufile
