// UploadRing: carries descriptor lists to kernels through a few pinned and device buffers per stream, used in rotation.
//
// A slot's host half is free again once its copy to the device has run, which an event reports. Its device half is
// ordered by the stream. After the ring has seen the largest wave and the deepest queue, it allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "cuda_error.h"

namespace headrace::device::cuda {

class UploadRing {
 public:
  UploadRing(const Health& health, cudaStream_t stream) : health_(health), stream_(stream) {}
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;
  // REQUIRES: the device is current, and all work queued on the stream has completed.
  ~UploadRing();

  // A host buffer to fill, and its address on the device.
  struct Slot {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
  };
  Result<Slot> acquire(std::size_t bytes);
  // Queues the copy of the buffer from acquire().
  Status send(std::size_t bytes);
  // The same, to memory of the caller's.
  Status send_to(std::byte* device, std::size_t bytes);
  // Instead of send(), after a launch that reads the host half directly: the buffer is free once that launch has run.
  Status keep_until_done();

 private:
  struct Buffer {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    std::size_t bytes = 0;
    cudaEvent_t copied = nullptr;
  };
  Status grow(Buffer& buffer, std::size_t bytes);
  void release(Buffer& buffer) noexcept;

  const Health& health_;
  const cudaStream_t stream_;
  std::vector<Buffer> buffers_;
  std::size_t current_ = 0;
  std::size_t largest_ = 0;  // largest size ever requested: lists of all kinds share the buffers
};

}  // namespace headrace::device::cuda
