#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>

#include "cuda_stream.h"

namespace headrace::device::cuda {
namespace {

struct DriverCalls {
  CUresult (*get)(CUcontext*) = nullptr;
  CUresult (*push)(CUcontext) = nullptr;
  CUresult (*pop)(CUcontext*) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*device)(CUdevice*, int) = nullptr;
  CUresult (*of_stream)(CUstream, CUcontext*) = nullptr;
  bool all = false;

  DriverCalls() noexcept {
    void* const library = dlopen("libcuda.so.1", RTLD_LAZY);  // never unloaded: the runtime uses it too
    if (library == nullptr) return;
    const auto find = [&](auto& call, const char* name) {
      call = reinterpret_cast<std::decay_t<decltype(call)>>(dlsym(library, name));
      return call != nullptr;
    };
    all = find(get, "cuCtxGetCurrent") && find(push, "cuCtxPushCurrent_v2") && find(pop, "cuCtxPopCurrent_v2") &&
          find(retain, "cuDevicePrimaryCtxRetain") && find(device, "cuDeviceGet") && find(of_stream, "cuStreamGetCtx");
  }
};

const DriverCalls& driver() noexcept {
  static const DriverCalls calls;
  return calls;
}

// Retained once and never released: the runtime keeps the primary context too.
CUcontext primary_context(int ordinal) noexcept {
  static std::array<std::atomic<CUcontext>, 64> known{};
  static std::mutex mutex;
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= known.size() || !driver().all) return nullptr;
  std::atomic<CUcontext>& kept = known[static_cast<std::size_t>(ordinal)];
  CUcontext context = kept.load(std::memory_order_acquire);
  if (context != nullptr) return context;
  std::lock_guard lock(mutex);
  context = kept.load(std::memory_order_acquire);
  CUdevice device = 0;
  if (context != nullptr || driver().device(&device, ordinal) != CUDA_SUCCESS) return context;
  if (driver().retain(&context, device) != CUDA_SUCCESS) return nullptr;
  kept.store(context, std::memory_order_release);
  return context;
}

}  // namespace

Current::Current(int ordinal) noexcept {
  // Initialises the driver if necessary: the runtime does so to count devices.
  static const bool started = [] {
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess;
  }();
  const CUcontext wanted = started ? primary_context(ordinal) : nullptr;
  if (wanted == nullptr) {
    error_ = cudaSetDevice(ordinal);  // for its error code
    return;
  }
  relaxed_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess;
  CUcontext now = nullptr;
  if (driver().get(&now) == CUDA_SUCCESS && now == wanted) return;
  pushed_ = driver().push(wanted) == CUDA_SUCCESS;
  if (!pushed_) error_ = cudaErrorDeviceUninitialized;
}

Current::~Current() {
  if (relaxed_) (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  CUcontext popped = nullptr;
  if (pushed_) (void)driver().pop(&popped);
}

ForeignEvent::ForeignEvent(int ordinal, cudaStream_t stream) noexcept {
  // The default streams belong to the context that is current.
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread || !driver().all) return;
  CUcontext theirs = nullptr, popped = nullptr;
  if (driver().of_stream(stream, &theirs) != CUDA_SUCCESS || theirs == primary_context(ordinal)) return;
  if (driver().push(theirs) != CUDA_SUCCESS) return;
  error_ = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  if (error_ == cudaSuccess) error_ = cudaEventRecord(event_, stream);
  (void)driver().pop(&popped);
}

ForeignEvent::~ForeignEvent() {
  // The driver keeps an event that others wait for until it has completed.
  if (event_ != nullptr && cudaEventDestroy(event_) != cudaSuccess) (void)cudaGetLastError();
}

}  // namespace headrace::device::cuda
