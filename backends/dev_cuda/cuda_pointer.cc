#include "cuda_pointer.h"

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>

namespace headrace::device::cuda {
namespace {

using GetAttributes = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);

// The result can be kept: a program never unloads the driver's library.
GetAttributes driver_function() noexcept {
  static std::atomic<GetAttributes> known{nullptr};
  GetAttributes function = known.load(std::memory_order_acquire);
  if (function != nullptr) return function;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  function = reinterpret_cast<GetAttributes>(dlsym(library, "cuPointerGetAttributes"));
  known.store(function, std::memory_order_release);
  return function;
}

}  // namespace

MemoryPlace locate_pointer(const void* address) noexcept {
  MemoryPlace place;
  const GetAttributes ask = driver_function();
  if (ask == nullptr) return place;
  unsigned type = 0, managed = 0, legacy = 1;
  int ordinal = 0;
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void* values[] = {&type, &managed, &ordinal, &start, &bytes, &legacy};
  if (ask(6, names, values, reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS) return place;
  if (type != CU_MEMORYTYPE_DEVICE && managed == 0) return place;  // host memory, pinned or not
  place.kind = managed != 0 ? MemoryPlace::Kind::kShared : MemoryPlace::Kind::kDevice;
  place.device_kind = "cuda";
  place.device = ordinal;
  place.base = reinterpret_cast<const std::byte*>(start);
  place.bytes = bytes;
  place.whole = legacy != 0;  // false for memory mapped piece by piece into one address range
  return place;
}

}  // namespace headrace::device::cuda
