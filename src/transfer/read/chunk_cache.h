// ChunkCache: chunks of one array in a device's memory, so that later reads need not fetch them. They are kept decoded,
// so that they only need to be placed, or as stored, so that more of them fit. The device may be the host, whose memory
// then replaces a distant store.
//
// The cache fills until its memory is used up and never evicts. Training epochs return to every chunk equally often, so
// an evicted chunk would be missed as soon as its replacement.
//
// A chunk is identified by where it is stored and by the version of its object. If the object has changed since,
// lookups find nothing and nothing is kept.
//
// Threads: every call from any thread; lock-free except where memory is allocated.
// Owns:    device memory, until it is destroyed, which must not happen before the reads that use it have ended.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "transfer/plan/plan.h"

namespace headrace::transfer {

class ChunkCache {
 public:
  enum class Form : std::uint8_t { kDecoded, kEncoded };  // kEncoded: as they are stored

  struct Limits {
    std::uint64_t memory_bytes = 0;  // of the device
    std::uint64_t chunks = 0;
    std::uint64_t leave_free_bytes = 0;  // device memory that must remain free: no allocation leaves less
  };
  // Throws std::bad_alloc.
  ChunkCache(std::shared_ptr<device::Device> device, Form form, const Limits& limits);
  ~ChunkCache();
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  struct Key {
    std::uint64_t object = 0, offset = 0;  // index of the stored object in the array's grid; offset of the chunk in it
    StoredVersion version;
  };
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  struct Found {
    enum class What : std::uint8_t {
      kNothing,
      kKept,    // `memory` has the chunk (empty: nothing is stored), `head` its first stored bytes if they were given
      kToKeep,  // the caller fills `memory`, then calls keep(), abandon() or drop()
    } what = What::kNothing;
    std::span<std::byte> memory;
    std::span<const std::byte> head;
    std::uint32_t entry = 0;
  };
  // `bytes`: size of the chunk in this form; kUnknown: a chunk in state kToKeep gets its memory from take_room().
  Found find(const Key& key, std::uint64_t bytes) noexcept;
  // Memory for an entry in state kToKeep; empty: none left, or the entry has memory of another size.
  std::span<std::byte> take_room(std::uint32_t entry, std::uint64_t bytes) noexcept;
  // Changes nothing: returns kKept or kNothing.
  Found look_up(const Key& key) const noexcept;
  // Whether chunks that are not cached yet may still be added.
  bool takes_more() const noexcept { return !full_.load(std::memory_order_relaxed); }
  // The entry is filled: work queued from now on may read it. `head`: first stored bytes that the CPU will need, copied
  // if memory allows.
  void keep(std::uint32_t entry, std::span<const std::byte> head = {}) noexcept;
  // No queued work writes to the entry any more. The next lookup of the chunk fills it.
  void abandon(std::uint32_t entry) noexcept;
  // As abandon(), but later lookups do not retry.
  void drop(std::uint32_t entry) noexcept;

  Form form() const noexcept { return form_; }
  std::uint64_t used_bytes() const noexcept { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  enum class State : std::uint8_t { kFree, kBusy, kToKeep, kFilling, kKept, kDropped };
  struct Entry {
    std::atomic<State> state{State::kFree};
    Key key;  // constant once the state is neither kFree nor kBusy
    // Written by the thread that fills the entry; constant once the state is kKept.
    std::span<std::byte> memory;
    std::unique_ptr<std::byte[]> head;
    std::size_t head_bytes = 0;
    // Whether it is this chunk, of any version.
    bool is_of(const Key& wanted) const noexcept { return key.object == wanted.object && key.offset == wanted.offset; }
  };
  template <class Look>
  Found walk(const Key& key, const Look& look) const noexcept;
  Found kept_in(std::uint32_t number) const noexcept;
  std::span<std::byte> take(std::uint64_t bytes) noexcept;
  bool leaves_enough(std::uint64_t bytes) const noexcept;

  const std::shared_ptr<device::Device> device_;
  const Form form_;
  const Limits limits_;
  std::vector<Entry> entries_;  // open addressing, a power of two of them
  std::atomic<bool> full_{false};
  std::atomic<std::uint64_t> used_bytes_{0};
  std::mutex mutex_;
  std::vector<std::span<std::byte>> blocks_;  // guarded by mutex_
  std::uint64_t block_used_ = 0;              // bytes used of the last block; guarded by mutex_
};

// The caches of one array that a read uses and fills; null: none.
struct KeptChunks {
  std::shared_ptr<ChunkCache> on_device;  // on the read's device
  std::shared_ptr<ChunkCache> in_memory;  // on the host: chunks of stores without files, as stored
};

}  // namespace headrace::transfer
