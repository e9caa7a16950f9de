// Staging: pinned slabs, device slabs and streams, kept between reads.
//
// Pinning memory takes milliseconds, so slabs are reused from wave to wave and from read to read.
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
  std::unique_ptr<device::Event> copied;  // recorded only for a trace, where decoding follows the copy
  bool used = false;                      // a launched wave has used it, so its first-use initialisation is done
  ~StagingSlot();
};

class StagingPool {
 public:
  struct Bytes {
    std::size_t pinned = 0, device = 0;
  };
  // Returns `count` slots with slabs of at least these sizes. Free slots are used first; the others are made in
  // parallel, while another thread calls meanwhile(). Before that, free slots of the device that are too small are
  // destroyed, except for as much as `keep` allows.
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
