// Elementwise filters as a stage: one launch over the elements of all chunks.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "element_device.cuh"

namespace headrace::codec::gpu {
namespace {

__global__ void __launch_bounds__(kElementThreads) decode_elements(ElementJob job) { elements_body(job); }

class ElementStage final : public device::gpu::Stage {
 public:
  explicit ElementStage(const device::DecodeStage& stage) {
    job_.op = ElementOp::unpack(stage.parameters.data());
    job_.exact = stage.exact;
    job_.capacity_bytes = stage.capacity_bytes;
  }
  std::uint64_t scratch_bytes(const device::gpu::Limits&) const noexcept override { return 0; }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    ElementJob job = job_;
    job.chunks = batch.limits.chunks;
    const std::uint64_t elements = std::min(batch.limits.largest_src_bytes / width_bytes(job.op.stored.number),
                                            job.capacity_bytes / width_bytes(job.op.decoded.number));
    job.tiles = std::max<std::uint64_t>(1, (elements + kElementTile - 1) / kElementTile);
    job.list = batch.chunks;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    const std::uint64_t blocks =
        std::min<std::uint64_t>(job.chunks * job.tiles, static_cast<std::uint64_t>(batch.multiprocessors) * 16);
    void* arguments[] = {&job};
    return cudaLaunchKernel(reinterpret_cast<const void*>(&decode_elements), dim3(static_cast<unsigned>(blocks)),
                            dim3(kElementThreads), arguments, 0, stream);
  }

 private:
  ElementJob job_;
};

}  // namespace

std::unique_ptr<device::gpu::Stage> make_element_stage(const device::DecodeStage& stage) {
  return std::unique_ptr<device::gpu::Stage>(new (std::nothrow) ElementStage(stage));
}

}  // namespace headrace::codec::gpu
