// Converts CUDA's error codes to a Status.
#pragma once

#include <cuda_runtime_api.h>
#include <headrace/status.h>

#include <atomic>
#include <string_view>

namespace headrace::device::cuda {

// Whether every later call in this process's context fails after this error.
bool is_sticky(cudaError_t error) noexcept;

// Remembers whether the device was lost, so that later calls fail without asking the driver.
class Health {
 public:
  // OK, or the Status of `error`; `what`: the operation. Clears the thread's last error where possible.
  Status check(cudaError_t error, std::string_view what) const;
  Status lost() const;
  bool is_lost() const noexcept { return cause_.load(std::memory_order_relaxed) != cudaSuccess; }

 private:
  mutable std::atomic<cudaError_t> cause_{cudaSuccess};
};

}  // namespace headrace::device::cuda
