// Host memory near a GPU that the GPU reaches itself.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cuda_error.h"

namespace headrace::device::cuda {

// NUMA node of a PCI device ("0000:1b:00.0"), -1 if unknown or the machine has one node.
int numa_node_of(const std::string& pci_bus_id) noexcept;

// Pages are asked for near the GPU and as huge pages, then registered with the driver. Where registration is refused,
// the driver's own pinned memory is used.
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
  std::unordered_map<std::byte*, std::size_t> mapped_;  // registered by us: mapped bytes; guarded by mutex_
};

}  // namespace headrace::device::cuda
