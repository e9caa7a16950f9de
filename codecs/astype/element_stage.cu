// Elementwise filters as a stage: one launch over the elements of all chunks.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "element_device.cuh"

namespace headrace::codec::gpu {
namespace {

__global__ void __launch_bounds__(kElementThreads) decode_elements(ElementJob job) { elements_body(job); }

// The same for common combinations, as compile-time constants.
template <ElementFilter::Kind kKind, Number kStored, Number kDecoded>
__global__ void __launch_bounds__(kElementThreads) decode_elements_as(ElementJob job) {
  job.op.kind = kKind;
  job.op.stored.number = kStored;
  job.op.decoded.number = kDecoded;
  elements_body(job);
}

template <ElementFilter::Kind kKind, Number kDecoded>
const void* kernel_from(Number stored) {
  switch (stored) {
    case Number::kInt8:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kInt8, kDecoded>);
    case Number::kUint8:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kUint8, kDecoded>);
    case Number::kInt16:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kInt16, kDecoded>);
    case Number::kUint16:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kUint16, kDecoded>);
    case Number::kInt32:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kInt32, kDecoded>);
    case Number::kFloat16:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kFloat16, kDecoded>);
    case Number::kFloat32:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kFloat32, kDecoded>);
    case Number::kFloat64:
      return reinterpret_cast<const void*>(&decode_elements_as<kKind, Number::kFloat64, kDecoded>);
    default:
      return nullptr;
  }
}

template <ElementFilter::Kind kKind>
const void* kernel_to(const ElementFilter& op) {
  if (op.decoded.number == Number::kFloat32) return kernel_from<kKind, Number::kFloat32>(op.stored.number);
  if (op.decoded.number == Number::kFloat64) return kernel_from<kKind, Number::kFloat64>(op.stored.number);
  return nullptr;
}

const void* kernel_for(const ElementFilter& op) {
  const void* kernel = nullptr;
  if (op.kind == ElementFilter::Kind::kConvert) kernel = kernel_to<ElementFilter::Kind::kConvert>(op);
  if (op.kind == ElementFilter::Kind::kScale) kernel = kernel_to<ElementFilter::Kind::kScale>(op);
  if (op.kind == ElementFilter::Kind::kCast) kernel = kernel_to<ElementFilter::Kind::kCast>(op);
  return kernel != nullptr ? kernel : reinterpret_cast<const void*>(&decode_elements);
}

class ElementStage final : public device::gpu::GpuCodec {
 public:
  explicit ElementStage(const device::DecodeStage& stage) {
    job_.op = ElementFilter::unpack(stage.parameters.data());
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
    return cudaLaunchKernel(kernel_for(job.op), dim3(static_cast<unsigned>(blocks)), dim3(kElementThreads), arguments,
                            0, stream);
  }

 private:
  ElementJob job_;
};

}  // namespace

std::unique_ptr<device::gpu::GpuCodec> make_element_stage(const device::DecodeStage& stage) {
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) ElementStage(stage));
}

}  // namespace headrace::codec::gpu
