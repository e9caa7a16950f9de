// The plug-in's own streams and events, and the scope that makes a device current.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "base/fork.h"
#include "cuda_error.h"
#include "device/device.h"
#include "upload_ring.h"
#include "work_items.h"

namespace headrace::device::cuda {

// Makes the device's primary context current on this thread for a scope, then restores the caller's context. Objects
// created in a context of the caller's would die with it, while this device lives on. The primary context can copy
// memory of other contexts, and its kernels can access it.
//
// While the program captures one of its streams, calls that create or free something would fail and invalidate the
// capture; in this scope they do not affect it.
class Current {
 public:
  explicit Current(int ordinal) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  cudaError_t error() const noexcept { return error_; }

 private:
  bool pushed_ = false, relaxed_ = false;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // inside the scope: the thread's previous mode
  cudaError_t error_ = cudaSuccess;
};

// Marks what is queued so far on a program's stream whose context is not the primary one of `ordinal`, such as a stream
// of another GPU. The event is created in the stream's context, since only such an event can be recorded there. Any
// stream can wait for it.
class ForeignEvent {
 public:
  ForeignEvent(int ordinal, cudaStream_t stream) noexcept;
  ~ForeignEvent();
  ForeignEvent(const ForeignEvent&) = delete;
  ForeignEvent& operator=(const ForeignEvent&) = delete;
  cudaError_t error() const noexcept { return error_; }
  cudaEvent_t get() const noexcept { return event_; }  // null: a stream of that context, or a default one

 private:
  cudaEvent_t event_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

// After fork() the driver does not know the parent's objects, so they are not freed.
struct CudaEvent final : Event {
  CudaEvent(int device, cudaEvent_t e) : ordinal(device), event(e) {}
  ~CudaEvent() override {
    if (generation != base::fork_generation()) return;
    Current current(ordinal);
    if (cudaEventDestroy(event) != cudaSuccess) (void)cudaGetLastError();
  }
  const std::uint64_t generation = base::fork_generation();
  const int ordinal;
  const cudaEvent_t event;
};

struct CudaStream final : Stream {
  CudaStream(const Health& health, int device, cudaStream_t s, cudaEvent_t e)
      : ordinal(device), stream(s), foreign(e), ring(std::make_unique<UploadRing>(health, s)) {}
  ~CudaStream() override {
    if (generation != base::fork_generation()) {
      (void)ring.release();
      return;
    }
    Current current(ordinal);
    if (cudaStreamSynchronize(stream) != cudaSuccess) (void)cudaGetLastError();
    ring.reset();
    if (cudaEventDestroy(foreign) != cudaSuccess) (void)cudaGetLastError();
    if (cudaStreamDestroy(stream) != cudaSuccess) (void)cudaGetLastError();
  }
  const std::uint64_t generation = base::fork_generation();
  const int ordinal;
  const cudaStream_t stream;
  const cudaEvent_t foreign;  // recorded on the caller's streams
  std::unique_ptr<UploadRing> ring;
  // Kept between waves to reuse their capacity.
  BoxList boxes;
  BoxList converting;
  std::vector<PieceItem> small;
  std::vector<const void*> batch_src;
  std::vector<void*> batch_dst;
  std::vector<std::size_t> batch_bytes;
};

}  // namespace headrace::device::cuda
