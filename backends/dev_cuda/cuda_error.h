// From CUDA's error codes to a Status.
#pragma once

#include <cuda_runtime_api.h>
#include <headrace/status.h>

#include <atomic>
#include <string_view>

namespace headrace::device::cuda {

// Errors after which every call in this process's context fails.
bool is_sticky(cudaError_t error) noexcept;

// Remembers whether the device was lost, so that every later call says so without asking the driver.
class Health {
 public:
  // OK, or the Status of `error` with what was being done. Clears the thread's last error where that is possible.
  Status check(cudaError_t error, std::string_view what) const;
  Status lost() const;
  bool is_lost() const noexcept { return cause_.load(std::memory_order_relaxed) != cudaSuccess; }

 private:
  mutable std::atomic<cudaError_t> cause_{cudaSuccess};
};

}  // namespace headrace::device::cuda
