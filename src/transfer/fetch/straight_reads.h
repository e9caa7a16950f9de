// Straight reads: an engine reads into a device's memory, without a stop in host memory (docs/design/io.md, gds).
// Queues of files and reads of arrays make them by the same rules.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "device/device.h"
#include "io/engine.h"
#include "transfer/fetch/io_service.h"
#include "transfer/pagecache/router.h"

namespace headrace::transfer {

// Lets the engine's requests use the device's memory, which has to outlive the engine.
void reach_device(io::EngineOptions& options, device::Device& device);

// Whether a user makes straight reads: until one fails that may succeed through host memory.
//
// Threads: possible() from any thread, repeats() from one at a time.
class StraightReads {
 public:
  // `user`: what a note calls the user of the engine, such as "queue".
  explicit StraightReads(const char* user) noexcept : user_(user) {}
  bool possible() const noexcept { return !given_up_.load(std::memory_order_relaxed); }
  // For a straight read that ended with `status`. True: it is to be repeated through host memory, since the device, its
  // driver or their limits may be the cause; if the disk is, the read fails again. From then on there are no straight
  // reads, and the notes say why.
  bool repeats(const Status& status, Notes& notes) noexcept;

 private:
  const char* const user_;
  std::atomic<bool> given_up_{false};
};

// The I/O service that reads into one device's memory for the arrays of a Context, if the Context's engine can.
//
// Threads: every call from any thread.
// Owns:    the service; keeps the device.
class StraightService {
 public:
  // `options`: of the Context's own service. Throws std::bad_alloc.
  StraightService(std::shared_ptr<device::Device> device, IoServiceOptions options);

  const std::shared_ptr<device::Device>& device() const noexcept { return device_; }
  // Null: reads go through host memory.
  IoService* service() const noexcept { return reads_.possible() ? service_.get() : nullptr; }
  // "" if there never was an engine that reaches the device.
  std::string engine_name() const;
  // See StraightReads.
  bool repeats(const Status& status) noexcept;
  // One line on the engine, or on why there is none, and one if straight reads were given up. Throws std::bad_alloc.
  std::string report() const;
  // For a forked child, which has none of the threads.
  void abandon() noexcept { (void)service_.release(); }

 private:
  const std::shared_ptr<device::Device> device_;
  std::unique_ptr<IoService> service_;
  std::string refused_;  // why there is no service, one line each
  StraightReads reads_{"context"};
  mutable std::mutex mutex_;
  Notes notes_;  // guarded by mutex_
};

}  // namespace headrace::transfer
