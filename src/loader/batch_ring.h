// Memory of a loader's batches, and the state of a batch that was handed out.
#pragma once

#include <headrace/loader.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "device/device.h"
#include "loader/batch_layout.h"

namespace headrace {
namespace loader {

// kForked, for objects that belong to the parent process.
Status forked();

// Memory for batches. Fills and reads into a slot wait on `gate` for the streams that released the slot.
struct Ring {
  struct Slot {
    Buffer memory;
    enum class Use : std::uint8_t { kFree, kReading, kOut } use = Use::kFree;  // guarded by mutex
    std::span<std::byte> bytes() const noexcept { return {memory.data(), memory.size_bytes()}; }
  };

  std::shared_ptr<device::Device> device;
  BatchLayout layout;
  std::deque<Slot> slots;       // guarded by mutex; grows at its end, slots never move
  std::uint64_t max_slots = 0;  // guarded by mutex
  // Number of free slots that the planner waits for, if it waits for nothing else; 0: it waits for something else or
  // does not wait. Guarded by mutex.
  std::size_t wanted = 0;
  base::ProcessOwn<std::mutex> mutex;
  base::ProcessOwn<std::condition_variable> changed;
  std::unique_ptr<device::Stream> gate;  // guarded by mutex

  explicit Ring(BatchLayout made) : layout(std::move(made)) {}
  ~Ring() {
    if (mutex.inherited()) static_cast<void>(gate.release());  // its driver state belongs to the parent
  }

  // How many slots to allocate so that `count` are free in addition to those handed out. 0: enough exist, or
  // memory_bytes forbids it.
  std::size_t to_grow_locked(std::size_t count) const noexcept {
    const std::size_t all = count_locked(Slot::Use::kOut) + count;
    return all > slots.size() && all <= max_slots ? all - slots.size() : 0;
  }
  // Whether the planner's condition holds. Waking it is half of the cost of taking a batch, so it is woken only then.
  bool has_wanted_locked() const noexcept {
    return wanted > 0 && (count_locked(Slot::Use::kFree) >= wanted || to_grow_locked(wanted) > 0);
  }
  std::size_t count_locked(Slot::Use use) const noexcept {
    return static_cast<std::size_t>(
        std::count_if(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.use == use; }));
  }
  Status release(Slot& slot, std::span<void* const> native_streams);
};

}  // namespace loader

struct LoaderBatch::Held {
  std::shared_ptr<loader::Ring> ring;
  loader::Ring::Slot* slot = nullptr;
  bool released = false;
  std::vector<std::uint64_t> samples;
  std::uint64_t valid = 0, epoch = 0, number = 0;
  LoaderTiming timing;
};

}  // namespace headrace
