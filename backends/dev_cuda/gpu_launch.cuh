// Launches consecutive kernels of a stream with little idle time between them.
//
// A stage is a chain of short kernels, and between two of them a GPU idles for microseconds. From compute capability
// 9.0 on, the next kernel can be prepared while the previous one finishes ("programmatic dependent launch", CUDA
// programming guide). A kernel launched by Launcher must call wait_for_earlier() before it accesses memory.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "device/gpu_stage.h"
#include "load_only.h"

namespace headrace::device::gpu {

// After this, the writes of earlier kernels of the stream are visible. Every thread must call it first.
__device__ inline void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The number of thread blocks for `items` items, `per_block` each; at most `most`, which then loop.
inline unsigned blocks_for(std::uint64_t items, std::uint64_t per_block, std::uint64_t most) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>((items + per_block - 1) / per_block, 1, most));
}

// Keeps the first error, after which it launches nothing.
class Launcher {
 public:
  explicit Launcher(cudaStream_t stream) : stream_(stream), loads_(LoadOnly::active()) {
    int device = 0, major = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    early_ = major >= 9;
  }

  // `kernel` must call wait_for_earlier(). `shared`: dynamic shared memory in bytes.
  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), std::uint64_t blocks, unsigned threads, std::size_t shared,
                  Arguments... arguments) {
    launch(1, kernel, blocks, threads, shared, arguments...);
  }
  // Whether blocks can be launched in clusters.
  bool has_clusters() const { return early_; }
  // Launches clusters of `cluster` blocks, of which `blocks` is a multiple. REQUIRES: has_clusters().
  template <class... Parameters, class... Arguments>
  void launch(unsigned cluster, void (*kernel)(Parameters...), std::uint64_t blocks, unsigned threads,
              std::size_t shared, Arguments... arguments) {
    if (error_ != cudaSuccess) return;
    if (loads_) {
      cudaFuncAttributes loaded;
      error_ = cudaFuncGetAttributes(&loaded, kernel);
      return;
    }
    cudaLaunchAttribute attributes[2]{};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = cluster;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, 1u << 30)));
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream_;
    // Programmatic dependent launch works only if the kernel depends on one other kernel alone.
    const bool early = early_ && !joined_;
    joined_ = false;
    config.attrs = early ? attributes : attributes + 1;
    config.numAttrs = (early ? 1 : 0) + (cluster > 1 ? 1 : 0);
    error_ = cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
  }
  void check(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  void fill(void* memory, int byte, std::size_t bytes) {
    if (error_ == cudaSuccess && !loads_) error_ = cudaMemsetAsync(memory, byte, bytes, stream_);
  }
  // Later launches also wait for `event`.
  void join(NativeEvent event) {
    if (loads_) return;
    check(cudaStreamWaitEvent(stream_, event, 0));
    joined_ = true;
  }
  cudaError_t error() const { return error_; }

 private:
  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
  bool early_ = false, joined_ = false;
  const bool loads_;
};

}  // namespace headrace::device::gpu
