// BufferTable: registered memory by its first address. I/O works without registration; registering saves the lookup of
// an address, and bounds the program's accesses to what it registered.
//
// Threads: every call from any thread; find() takes a shared lock of one of many shards, and none while nothing is
//          registered.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <shared_mutex>
#include <unordered_map>

#include "cufile/cufile_api.h"
#include "device/device.h"

namespace headrace::cufile {

struct RegisteredBuffer {
  std::size_t bytes = 0;
  device::MemoryPlace place;
};

class BufferTable {
 public:
  // CU_FILE_MEMORY_ALREADY_REGISTERED. Throws std::bad_alloc.
  CUfileOpError add(const void* base, const RegisteredBuffer& buffer);
  bool remove(const void* base, RegisteredBuffer& removed) noexcept;
  bool find(const void* base, RegisteredBuffer& found) const noexcept;
  void clear() noexcept;

 private:
  static constexpr std::size_t kShards = 64;
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    std::unordered_map<const void*, RegisteredBuffer> buffers;  // guarded by mutex
  };
  static std::size_t shard_of(const void* base) noexcept {
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(base) >> 4) * 0x9E3779B97F4A7C15u >> 58);
  }
  std::array<Shard, kShards> shards_;
  std::atomic<std::size_t> count_{0};
};

inline CUfileOpError BufferTable::add(const void* base, const RegisteredBuffer& buffer) {
  Shard& shard = shards_[shard_of(base)];
  std::unique_lock lock(shard.mutex);
  if (!shard.buffers.emplace(base, buffer).second) return CU_FILE_MEMORY_ALREADY_REGISTERED;
  count_.fetch_add(1, std::memory_order_release);
  return CU_FILE_SUCCESS;
}

inline bool BufferTable::remove(const void* base, RegisteredBuffer& removed) noexcept {
  Shard& shard = shards_[shard_of(base)];
  std::unique_lock lock(shard.mutex);
  const auto found = shard.buffers.find(base);
  if (found == shard.buffers.end()) return false;
  removed = found->second;
  shard.buffers.erase(found);
  count_.fetch_sub(1, std::memory_order_release);
  return true;
}

inline bool BufferTable::find(const void* base, RegisteredBuffer& found) const noexcept {
  if (count_.load(std::memory_order_acquire) == 0) return false;
  const Shard& shard = shards_[shard_of(base)];
  std::shared_lock lock(shard.mutex);
  const auto at = shard.buffers.find(base);
  if (at == shard.buffers.end()) return false;
  found = at->second;
  return true;
}

inline void BufferTable::clear() noexcept {
  for (Shard& shard : shards_) {
    std::unique_lock lock(shard.mutex);
    count_.fetch_sub(shard.buffers.size(), std::memory_order_release);
    shard.buffers.clear();
  }
}

}  // namespace headrace::cufile
