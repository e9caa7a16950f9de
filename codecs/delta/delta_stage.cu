// delta as a stage: three launches over all chunks.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "codec/element_op.h"
#include "delta_device.cuh"

namespace headrace::codec::gpu {
namespace {

__global__ void __launch_bounds__(kDeltaThreads) delta_tiles(DeltaJob job, bool write) {
  __shared__ DeltaShared shared;
  delta_tiles_body(job, write, shared);
}
__global__ void __launch_bounds__(kDeltaThreads) delta_carry(DeltaJob job) {
  __shared__ DeltaShared shared;
  delta_carry_body(job, shared);
}

class DeltaStage final : public device::gpu::Stage {
 public:
  explicit DeltaStage(const device::DecodeStage& stage) {
    const ElementOp op = ElementOp::unpack(stage.parameters.data());
    job_.stored = op.stored;
    job_.decoded = op.decoded;
    job_.exact = stage.exact;
    job_.capacity_bytes = stage.capacity_bytes;
  }
  std::uint64_t scratch_bytes(const device::gpu::Limits& limits) const noexcept override {
    return limits.chunks * tiles(limits) * sizeof(std::uint64_t);
  }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    DeltaJob job = job_;
    job.chunks = batch.limits.chunks;
    job.tiles = tiles(batch.limits);
    job.list = batch.chunks;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    job.sums = reinterpret_cast<std::uint64_t*>(batch.scratch);
    const auto blocks = static_cast<unsigned>(
        std::min<std::uint64_t>(job.chunks * job.tiles, static_cast<std::uint64_t>(batch.multiprocessors) * 8));
    bool write = false;
    void* arguments[] = {&job, &write};
    const void* const tile_kernel = reinterpret_cast<const void*>(&delta_tiles);
    cudaError_t error = cudaLaunchKernel(tile_kernel, dim3(blocks), dim3(kDeltaThreads), arguments, 0, stream);
    if (error != cudaSuccess) return error;
    error = cudaLaunchKernel(reinterpret_cast<const void*>(&delta_carry), dim3(job.chunks), dim3(kDeltaThreads),
                             arguments, 0, stream);
    if (error != cudaSuccess) return error;
    write = true;
    return cudaLaunchKernel(tile_kernel, dim3(blocks), dim3(kDeltaThreads), arguments, 0, stream);
  }

 private:
  std::uint64_t tiles(const device::gpu::Limits& limits) const noexcept {
    const std::uint64_t elements = std::min(limits.largest_src_bytes / width_bytes(job_.stored.number),
                                            job_.capacity_bytes / width_bytes(job_.decoded.number));
    return std::max<std::uint64_t>(1, (elements + kDeltaTile - 1) / kDeltaTile);
  }

  DeltaJob job_;
};

}  // namespace

std::unique_ptr<device::gpu::Stage> make_delta_stage(const device::DecodeStage& stage) {
  return std::unique_ptr<device::gpu::Stage>(new (std::nothrow) DeltaStage(stage));
}

}  // namespace headrace::codec::gpu
