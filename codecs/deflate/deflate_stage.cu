// gzip and zlib on the GPU: a chunk is one stream, of one or more members if it is gzip's.
#include <cuda_runtime_api.h>

#include <memory>
#include <new>

#include "deflate_stage_device.cuh"

namespace headrace::codec::gpu {
namespace {

constexpr unsigned kThreads = 128;

__global__ void list_streams(const device::gpu::Chunk* chunks, std::uint32_t count, DeflateKind kind,
                             DeflateStream* streams, std::uint32_t* streams_count) {
  list_deflate_streams_body(chunks, count, kind, streams, streams_count);
}
__global__ void tell_sizes(device::gpu::Chunk* chunks, std::uint32_t count, const DeflateStream* streams,
                           const std::uint64_t* outcomes) {
  tell_deflate_sizes_body(chunks, count, streams, outcomes);
}

class DeflateStage final : public device::gpu::GpuCodec {
 public:
  DeflateStage(DeflateKind kind, bool exact) : kind_(kind), exact_(exact) {}

  std::uint64_t scratch_bytes(const device::gpu::Limits& limits) const noexcept override {
    return deflate_stage_scratch_bytes(limits);
  }

  bool wants_large_batches() const noexcept override { return true; }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    const std::uint32_t count = batch.limits.chunks;
    if (count == 0) return cudaSuccess;
    using List = device::gpu::StreamList<DeflateStream>;
    DeflateJob job;
    auto* const streams_count = reinterpret_cast<std::uint32_t*>(batch.scratch);
    job.streams = reinterpret_cast<DeflateStream*>(batch.scratch + List::kStreamsAt);
    job.count = streams_count;
    const unsigned blocks = (count + kThreads - 1) / kThreads;
    list_streams<<<blocks, kThreads, 0, stream>>>(batch.chunks, count, kind_, job.streams, streams_count);
    const std::uint64_t used = List::end(count);
    job.limits = deflate_limits_of(batch.limits);
    job.exact = exact_;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    job.scratch = batch.scratch + used;
    job.scratch_bytes = batch.scratch_bytes - used;
    job.multiprocessors = batch.multiprocessors;
    job.marks = batch.marks;
    if (const int error = enqueue_deflate(job, stream); error != cudaSuccess) return error;
    tell_sizes<<<blocks, kThreads, 0, stream>>>(batch.chunks, count, job.streams, batch.outcomes);
    return cudaGetLastError();
  }

 private:
  const DeflateKind kind_;
  const bool exact_;
};

}  // namespace

// parameters[0]: a DeflateKind.
std::unique_ptr<device::gpu::GpuCodec> make_deflate_stage(const device::DecodeStage& stage) {
  const auto kind = stage.parameters[0] == 0 ? DeflateKind::kGzip : DeflateKind::kZlib;
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) DeflateStage(kind, stage.exact));
}

}  // namespace headrace::codec::gpu
