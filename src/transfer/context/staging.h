// Staging: pinned slabs, device slabs and streams, kept between reads.
//
// Pinning memory takes milliseconds, so a slab once made is lent to one wave after another and given back by event.
//
// Threads: every call from any thread.
// Owns:    everything it lends; the budget bounds how much exists at a time.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/device.h"

namespace headrace::transfer {

struct StagingSlot {
  std::shared_ptr<device::Device> device;
  std::span<std::byte> pinned, on_device;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<device::Event> event;
  std::unique_ptr<device::Event> copied;  // recorded for the trace alone, where decoding follows the copy
  bool used = false;                      // by a wave that was launched: what is made at first use is there
  ~StagingSlot();
};

class StagingPool {
 public:
  struct Bytes {
    std::size_t pinned = 0, device = 0;
  };
  // As many slots with slabs of at least these sizes, what is free first; others are made, several at a time, and in
  // that time meanwhile() is called, by another thread. What is free on the device and too small is freed before, as
  // far as it is more than `keep`.
  Result<std::vector<std::unique_ptr<StagingSlot>>> take(const std::shared_ptr<device::Device>& device, Bytes slabs,
                                                         std::size_t count, Bytes keep,
                                                         const std::function<void()>& meanwhile);
  // REQUIRES: the slot's stream is idle.
  void give(std::unique_ptr<StagingSlot> slot) noexcept;
  // Frees slots that are not lent.
  void trim();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<StagingSlot>> free_;  // guarded by mutex_
};

}  // namespace headrace::transfer
