// Checksums as a stage: one launch over all segments of all chunks, which also copies, and one over all chunks.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "checksum_device.cuh"

namespace headrace::codec::gpu {
namespace {

constexpr unsigned kChecksumBlocks = 2;  // of a multiprocessor

__device__ const CrcTables kTables[2] = {make_crc_tables(kCrc32cPolynomial), make_crc_tables(kCrc32Polynomial)};

template <Checksum kKind>
__device__ const CrcTables* tables_of() {
  return kKind == Checksum::kCrc32c ? &kTables[0] : kKind == Checksum::kCrc32 ? &kTables[1] : nullptr;
}

template <Checksum kKind>
__global__ void __launch_bounds__(kChecksumThreads, kChecksumBlocks) checksum_segments(ChecksumJob job) {
  __shared__ ChecksumShared shared;
  job.tables = tables_of<kKind>();
  checksum_segments_body<kKind>(job, shared);
}

template <Checksum kKind, bool kByBlock>
__global__ void __launch_bounds__(kChecksumThreads) checksum_verdict(ChecksumJob job) {
  __shared__ ChecksumShared shared;
  job.tables = tables_of<kKind>();
  checksum_verdict_body<kKind, kByBlock>(job, shared);
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
    return limits.chunks * max_segments(longest(limits)) * sizeof(uint2);
  }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    ChecksumJob job = job_;
    job.chunks = batch.limits.chunks;
    job.segment_bytes = segment_bytes(longest(batch.limits), batch.limits.chunks,
                                      static_cast<std::uint64_t>(std::max(batch.multiprocessors, 1)));
    job.segments = static_cast<std::uint32_t>(segment_count(longest(batch.limits), job.segment_bytes));
    job.list = batch.chunks;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    job.partials = reinterpret_cast<uint2*>(batch.scratch);
    switch (job.kind) {
      case Checksum::kCrc32c:
        return launch<Checksum::kCrc32c>(job, batch.multiprocessors, stream);
      case Checksum::kCrc32:
        return launch<Checksum::kCrc32>(job, batch.multiprocessors, stream);
      case Checksum::kAdler32:
        return launch<Checksum::kAdler32>(job, batch.multiprocessors, stream);
      case Checksum::kFletcher32:
        return launch<Checksum::kFletcher32>(job, batch.multiprocessors, stream);
    }
    return cudaErrorInvalidValue;
  }

 private:
  template <Checksum kKind>
  static int launch(ChecksumJob& job, int multiprocessors, device::gpu::NativeStream stream) noexcept {
    const std::uint64_t items = static_cast<std::uint64_t>(job.chunks) * job.segments;
    const std::uint64_t blocks = std::min<std::uint64_t>((items + kChecksumWarps - 1) / kChecksumWarps,
                                                         static_cast<std::uint64_t>(multiprocessors) * kChecksumBlocks);
    void* arguments[] = {&job};
    const cudaError_t error =
        cudaLaunchKernel(reinterpret_cast<const void*>(&checksum_segments<kKind>), dim3(static_cast<unsigned>(blocks)),
                         dim3(kChecksumThreads), arguments, 0, stream);
    if (error != cudaSuccess) return error;
    const bool by_block = job.segments > kSegmentsByWarp;
    const void* const verdict = by_block ? reinterpret_cast<const void*>(&checksum_verdict<kKind, true>)
                                         : reinterpret_cast<const void*>(&checksum_verdict<kKind, false>);
    const std::uint32_t verdict_blocks = by_block ? job.chunks : (job.chunks + kChecksumWarps - 1) / kChecksumWarps;
    return cudaLaunchKernel(verdict, dim3(verdict_blocks), dim3(kChecksumThreads), arguments, 0, stream);
  }

  // Of the longest stream: one longer than its capacity is refused before it is read.
  std::uint64_t longest(const device::gpu::Limits& limits) const noexcept {
    return std::min(limits.largest_src_bytes, job_.capacity_bytes);
  }

  ChecksumJob job_;
};

}  // namespace

std::unique_ptr<device::gpu::GpuCodec> make_checksum_stage(const device::DecodeStage& stage) {
  if (stage.capacity_bytes > std::uint64_t{1} << 39) return nullptr;  // powers of x are tabled up to there
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) ChecksumStage(stage));
}

}  // namespace headrace::codec::gpu
