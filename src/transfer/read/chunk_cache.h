// ChunkCache: chunks of one array in a device's memory, which later reads need not read: decoded, so that they are only
// placed, or as they are stored, so that more of them fit. The device may be the host, whose memory then takes the
// place of a distant store.
//
// It fills until its memory is used up, and then keeps what it has. Epochs of training come back to each chunk equally
// often: what gave way to another chunk would be missed as soon as that one.
//
// A chunk is known by where it is stored and by which content of its object it is of. Of an object that has changed
// since, nothing is found and nothing is kept.
//
// Threads: every call from any thread, without locks but where memory is taken.
// Owns:    device memory, until it is destroyed: not before the reads that use it have ended.
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
    std::uint64_t leave_free_bytes = 0;  // of the device: no memory is taken that would leave less
  };
  // Throws std::bad_alloc.
  ChunkCache(std::shared_ptr<device::Device> device, Form form, const Limits& limits);
  ~ChunkCache();
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  struct Key {
    std::uint64_t object = 0, offset = 0;  // number of the stored object in the array's grid; where the chunk begins
    StoredVersion version;
  };
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  struct Found {
    enum class What : std::uint8_t {
      kNothing,
      kKept,    // `memory` has the chunk, `head` its first stored bytes, if they were given; empty: nothing is stored
      kToKeep,  // the caller fills `memory`, and then says keep(), give_up() or drop()
    } what = What::kNothing;
    std::span<std::byte> memory;
    std::span<const std::byte> head;
    std::uint32_t entry = 0;
  };
  // `bytes`: that the chunk takes in this form; kUnknown: what is to be kept gets its memory by take_room().
  Found find(const Key& key, std::uint64_t bytes) noexcept;
  // Memory for an entry that is to be kept; empty: there is none, or it has some of another size.
  std::span<std::byte> take_room(std::uint32_t entry, std::uint64_t bytes) noexcept;
  // Takes note of nothing: kKept, or kNothing.
  Found look_up(const Key& key) const noexcept;
  // Whether what it does not have may yet be kept.
  bool takes_more() const noexcept { return !full_.load(std::memory_order_relaxed); }
  // The device is through with it: whatever is queued from now on may read it. `head`: first stored bytes that the CPU
  // will look at, copied as far as there is memory for them.
  void keep(std::uint32_t entry, std::span<const std::byte> head = {}) noexcept;
  // Nothing is queued any more that writes to it. The next one that looks for the chunk fills it.
  void give_up(std::uint32_t entry) noexcept;
  // As give_up(), but nobody is to try again.
  void drop(std::uint32_t entry) noexcept;

  Form form() const noexcept { return form_; }
  std::uint64_t used_bytes() const noexcept { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  enum class State : std::uint8_t { kFree, kBusy, kToKeep, kFilling, kKept, kDropped };
  struct Entry {
    std::atomic<State> state{State::kFree};
    Key key;  // unchanged once the state is neither kFree nor kBusy
    // Whoever fills it may change these; unchanged once the state is kKept.
    std::span<std::byte> memory;
    std::unique_ptr<std::byte[]> head;
    std::size_t head_bytes = 0;
    // Of this chunk, whichever its content.
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
  std::uint64_t block_used_ = 0;              // of the last one; guarded by mutex_
};

// The caches of one array that a read takes chunks from, and adds them to; null: none.
struct KeptChunks {
  std::shared_ptr<ChunkCache> on_device;  // of the read's device
  std::shared_ptr<ChunkCache> in_memory;  // of the host: chunks of stores without files, as they are stored
};

}  // namespace headrace::transfer
