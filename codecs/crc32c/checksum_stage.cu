// Checksums as a stage: one launch over all segments of all chunks, which also copies, and one over all chunks.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "checksum_device.cuh"

namespace headrace::codec::gpu {
namespace {

constexpr unsigned kChecksumBlocks = 5;  // per multiprocessor

__device__ const CrcTables kTables[2] = {make_crc_tables(0x82F63B78), make_crc_tables(0xEDB88320)};

__global__ void __launch_bounds__(kChecksumThreads, kChecksumBlocks) checksum_segments(ChecksumJob job) {
  __shared__ ChecksumShared shared;
  job.tables = job.kind == Checksum::kCrc32c ? &kTables[0] : job.kind == Checksum::kCrc32 ? &kTables[1] : nullptr;
  checksum_segments_body(job, shared);
}

__global__ void __launch_bounds__(kChecksumThreads) checksum_verdict(ChecksumJob job) {
  __shared__ ChecksumShared shared;
  job.tables = job.kind == Checksum::kCrc32c ? &kTables[0] : job.kind == Checksum::kCrc32 ? &kTables[1] : nullptr;
  checksum_verdict_body(job, shared);
}

class ChecksumStage final : public device::gpu::GpuCodec {
 public:
  explicit ChecksumStage(const device::DecodeStage& stage) {
    job_.kind = static_cast<Checksum>(stage.parameters[0]);
    job_.at_start = stage.parameters[1] != 0;
    job_.exact = stage.exact;
    job_.capacity_bytes = stage.capacity_bytes;
  }

  std::uint64_t scratch_bytes(const device::gpu::Limits& limits) const noexcept override {
    return limits.chunks * segments(limits) * sizeof(uint2);
  }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    ChecksumJob job = job_;
    job.chunks = batch.limits.chunks;
    job.segments = static_cast<std::uint32_t>(segments(batch.limits));
    job.list = batch.chunks;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    job.partials = reinterpret_cast<uint2*>(batch.scratch);
    const std::uint64_t blocks =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(job.chunks) * job.segments,
                                static_cast<std::uint64_t>(batch.multiprocessors) * kChecksumBlocks);
    void* arguments[] = {&job};
    const cudaError_t error =
        cudaLaunchKernel(reinterpret_cast<const void*>(&checksum_segments), dim3(static_cast<unsigned>(blocks)),
                         dim3(kChecksumThreads), arguments, 0, stream);
    if (error != cudaSuccess) return error;
    return cudaLaunchKernel(reinterpret_cast<const void*>(&checksum_verdict), dim3(job.chunks), dim3(kChecksumThreads),
                            arguments, 0, stream);
  }

 private:
  // Streams longer than the capacity are refused before their bytes are read.
  std::uint64_t segments(const device::gpu::Limits& limits) const noexcept {
    const std::uint64_t bytes = std::min(limits.largest_src_bytes, job_.capacity_bytes);
    return std::max<std::uint64_t>(1, (bytes + kChecksumSegmentBytes - 1) / kChecksumSegmentBytes);
  }

  ChecksumJob job_;
};

}  // namespace

std::unique_ptr<device::gpu::GpuCodec> make_checksum_stage(const device::DecodeStage& stage) {
  if (stage.capacity_bytes > std::uint64_t{1} << 39) return nullptr;  // the table of powers of x ends there
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) ChecksumStage(stage));
}

}  // namespace headrace::codec::gpu
