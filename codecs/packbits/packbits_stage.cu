// packbits as a stage: one launch over all chunks.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "packbits_device.cuh"

namespace headrace::codec::gpu {
namespace {

__global__ void __launch_bounds__(kPackbitsThreads) unpack_bits(PackbitsJob job) { packbits_body(job); }

class PackbitsStage final : public device::gpu::GpuCodec {
 public:
  explicit PackbitsStage(const device::DecodeStage& stage) {
    job_.exact = stage.exact;
    job_.capacity_bytes = stage.capacity_bytes;
  }
  std::uint64_t scratch_bytes(const device::gpu::Limits&) const noexcept override { return 0; }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    PackbitsJob job = job_;
    job.chunks = batch.limits.chunks;
    const std::uint64_t bytes = std::min(batch.limits.largest_src_bytes, job.capacity_bytes / 8 + 1);
    job.tiles = std::max<std::uint64_t>(1, (bytes + kPackbitsTile - 1) / kPackbitsTile);
    job.list = batch.chunks;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    const std::uint64_t blocks =
        std::min<std::uint64_t>(job.chunks * job.tiles, static_cast<std::uint64_t>(batch.multiprocessors) * 16);
    void* arguments[] = {&job};
    return cudaLaunchKernel(reinterpret_cast<const void*>(&unpack_bits), dim3(static_cast<unsigned>(blocks)),
                            dim3(kPackbitsThreads), arguments, 0, stream);
  }

 private:
  PackbitsJob job_;
};

}  // namespace

std::unique_ptr<device::gpu::GpuCodec> make_packbits_stage(const device::DecodeStage& stage) {
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) PackbitsStage(stage));
}

}  // namespace headrace::codec::gpu
