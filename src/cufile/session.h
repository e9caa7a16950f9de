// Session: what exists while the driver is open: the configuration in use, threads, engines and devices.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/context.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cufile/cufile_config.h"
#include "device/device.h"
#include "transfer/context/resources.h"

namespace headrace::cufile {

class Session {
 public:
  static Result<std::shared_ptr<Session>> create(const Config& config);

  std::uint64_t id() const noexcept { return id_; }
  const Config& config() const noexcept { return config_; }
  const std::shared_ptr<transfer::Resources>& resources() const noexcept { return resources_; }
  // The device that owns the memory; the host device for all memory that the CPU can address.
  Result<std::shared_ptr<device::Device>> device(const device::MemoryPlace& place);

 private:
  explicit Session(const Config& config) : config_(config) {}
  std::uint64_t id_ = 0;
  Config config_;
  std::shared_ptr<transfer::Resources> resources_;
  std::mutex mutex_;
  std::unordered_map<int, std::shared_ptr<device::Device>> devices_;  // guarded by mutex_; by queue_key()
};

// One value for host memory, another for each device.
int queue_key(const device::MemoryPlace& place) noexcept;

}  // namespace headrace::cufile
