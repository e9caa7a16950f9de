// delta as a stage: three launches over all chunks.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "codec/element_filter.h"
#include "delta_device.cuh"

namespace headrace::codec::gpu {
namespace {

__global__ void __launch_bounds__(kDeltaThreads) delta_tiles(DeltaJob job, bool write) {
  __shared__ DeltaShared shared;
  delta_tiles_body(job, write, shared);
}
// The same for equal widths on both sides, as a compile-time constant; signedness then does not matter.
template <Number kNumber>
__global__ void __launch_bounds__(kDeltaThreads) delta_tiles_as(DeltaJob job, bool write) {
  __shared__ DeltaShared shared;
  job.stored.number = kNumber;
  job.decoded.number = kNumber;
  delta_tiles_body(job, write, shared);
}

const void* tile_kernel_for(const DeltaJob& job) {
  const unsigned width = width_bytes(job.decoded.number);
  // A stored bool counts as 1, whatever its nonzero byte is.
  if (width_bytes(job.stored.number) == width && job.stored.number != Number::kBool) {
    switch (width) {
      case 1:
        return reinterpret_cast<const void*>(&delta_tiles_as<Number::kUint8>);
      case 2:
        return reinterpret_cast<const void*>(&delta_tiles_as<Number::kUint16>);
      case 4:
        return reinterpret_cast<const void*>(&delta_tiles_as<Number::kUint32>);
      default:
        return reinterpret_cast<const void*>(&delta_tiles_as<Number::kUint64>);
    }
  }
  return reinterpret_cast<const void*>(&delta_tiles);
}

__global__ void __launch_bounds__(kDeltaThreads) delta_carry(DeltaJob job) {
  __shared__ DeltaShared shared;
  delta_carry_body(job, shared);
}

class DeltaStage final : public device::gpu::GpuCodec {
 public:
  explicit DeltaStage(const device::DecodeStage& stage) {
    const ElementFilter op = ElementFilter::unpack(stage.parameters.data());
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
    const void* const tile_kernel = tile_kernel_for(job);
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

std::unique_ptr<device::gpu::GpuCodec> make_delta_stage(const device::DecodeStage& stage) {
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) DeltaStage(stage));
}

}  // namespace headrace::codec::gpu
