// GuardedWindows: pieces of device memory of one size, each between unmapped addresses, so that a read or write past
// either end always faults.
//
// The smallest piece is the driver's granularity, 2 MiB. Uses the driver's virtual memory calls, which are loaded at
// run time.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace headrace::test {

class GuardedWindows {
 public:
  // Aborts the process if there is no memory or no such driver.
  GuardedWindows(std::size_t count, std::size_t window_bytes) {
    must(cudaFree(nullptr) == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, "opening the GPU");
    find(get_granularity_, "cuMemGetAllocationGranularity");
    find(reserve_, "cuMemAddressReserve");
    find(create_, "cuMemCreate");
    find(map_, "cuMemMap");
    find(set_access_, "cuMemSetAccess");
    find(unmap_, "cuMemUnmap");
    find(release_, "cuMemRelease");
    find(free_, "cuMemAddressFree");
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    int device = 0;
    (void)cudaGetDevice(&device);
    properties.location.id = device;
    std::size_t granularity = 0;
    must(get_granularity_(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "asking for the granularity");
    bytes_ = (std::max<std::size_t>(window_bytes, 1) + granularity - 1) / granularity * granularity;
    stride_ = bytes_ + granularity;
    reserved_ = count * stride_ + granularity;
    must(reserve_(&base_, reserved_, granularity, 0, 0), "reserving addresses");
    base_ += granularity;
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (std::size_t i = 0; i < count; ++i) {
      CUmemGenericAllocationHandle handle{};
      must(create_(&handle, bytes_, &properties, 0), "allocating a window");
      must(map_(base_ + i * stride_, bytes_, 0, handle, 0), "mapping a window");
      must(set_access_(base_ + i * stride_, bytes_, &access, 1), "opening a window");
      handles_.push_back(handle);
    }
    granularity_ = granularity;
  }
  ~GuardedWindows() {
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      (void)unmap_(base_ + i * stride_, bytes_);
      (void)release_(handles_[i]);
    }
    (void)free_(base_ - granularity_, reserved_);
  }
  GuardedWindows(const GuardedWindows&) = delete;
  GuardedWindows& operator=(const GuardedWindows&) = delete;

  std::size_t count() const { return handles_.size(); }
  std::size_t window_bytes() const { return bytes_; }
  std::size_t stride() const { return stride_; }
  unsigned char* window(std::size_t i) const { return reinterpret_cast<unsigned char*>(base_ + i * stride_); }

 private:
  static void must(CUresult result, const char* what) {
    if (result == CUDA_SUCCESS) return;
    std::fprintf(stderr, "%s: driver error %d\n", what, static_cast<int>(result));
    std::exit(1);
  }
  template <class Function>
  static void find(Function& function, const char* name) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    if (cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found) != cudaSuccess ||
        address == nullptr) {
      must(CUDA_ERROR_NOT_FOUND, name);
    }
    function = reinterpret_cast<Function>(address);
  }

  decltype(&cuMemGetAllocationGranularity) get_granularity_ = nullptr;
  decltype(&cuMemAddressReserve) reserve_ = nullptr;
  decltype(&cuMemCreate) create_ = nullptr;
  decltype(&cuMemMap) map_ = nullptr;
  decltype(&cuMemSetAccess) set_access_ = nullptr;
  decltype(&cuMemUnmap) unmap_ = nullptr;
  decltype(&cuMemRelease) release_ = nullptr;
  decltype(&cuMemAddressFree) free_ = nullptr;
  CUdeviceptr base_ = 0;
  std::size_t bytes_ = 0, stride_ = 0, reserved_ = 0, granularity_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

}  // namespace headrace::test
