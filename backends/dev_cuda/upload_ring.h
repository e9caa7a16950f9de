// Descriptor lists on their way to a kernel: a few pinned and device buffers per stream, used in turn.
//
// A slot's host half is free again once its copy to the device has run, which an event tells; its device half is
// ordered by the stream. Nothing is allocated once the ring has seen the largest wave and the deepest queue.
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
  // The device is current, and what was queued on the stream is done.
  ~UploadRing();

  // A host buffer to be written, and where it will be on the device.
  struct Slot {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
  };
  Result<Slot> acquire(std::size_t bytes);
  // Queues the copy of what acquire() gave.
  Status send(std::size_t bytes);
  // The same to memory of the caller's.
  Status send_to(std::byte* device, std::size_t bytes);
  // Instead of send(), after a launch that reads the host half itself: it is free once that has run.
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
  std::size_t largest_ = 0;  // that was ever asked for: lists of all kinds take turns in the buffers
};

}  // namespace headrace::device::cuda
