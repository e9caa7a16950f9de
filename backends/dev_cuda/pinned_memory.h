// Pinned host memory on the NUMA node of a GPU.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cuda_error.h"

namespace headrace::device::cuda {

// NUMA node of a PCI device ("0000:1b:00.0"), -1 if unknown or the machine has one node.
int numa_node_of(const std::string& pci_bus_id) noexcept;

// Allocates pages near the GPU, as huge pages if possible, and registers them with the driver. If registration is
// refused, uses the driver's own pinned memory.
//
// Threads: every call from any thread, with the device current.
class PinnedMemory {
 public:
  explicit PinnedMemory(const Health& health) : health_(health) {}
  Result<std::byte*> allocate(std::size_t bytes, int numa_node, bool may_register);
  void deallocate(std::byte* memory) noexcept;

 private:
  const Health& health_;
  std::mutex mutex_;
  std::unordered_map<std::byte*, std::size_t> mapped_;  // guarded by mutex_: registered memory, with its mapped size
};

}  // namespace headrace::device::cuda
