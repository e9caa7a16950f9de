// numcodecs' and Zarr's zstd on the GPU: a chunk is one stream.
#include <cuda_runtime_api.h>

#include <memory>
#include <new>

#include "zstd_stage_device.cuh"

namespace headrace::codec::gpu {
namespace {

constexpr unsigned kThreads = 128;

__global__ void list_streams(const device::gpu::Chunk* chunks, std::uint32_t count, ZstdStream* streams,
                             std::uint32_t* streams_count) {
  list_zstd_streams_body(chunks, count, streams, streams_count);
}
__global__ void tell_sizes(device::gpu::Chunk* chunks, std::uint32_t count, const ZstdStream* streams,
                           const std::uint64_t* outcomes) {
  tell_zstd_sizes_body(chunks, count, streams, outcomes);
}

class ZstdStage final : public device::gpu::GpuCodec {
 public:
  explicit ZstdStage(bool exact) : exact_(exact) {}

  std::uint64_t scratch_bytes(const device::gpu::Limits& limits) const noexcept override {
    return zstd_stage_scratch_bytes(limits);
  }

  std::uint64_t index_bytes(std::uint64_t dst_bytes) const noexcept override { return zstd_index_bytes(dst_bytes); }
  bool ends_early() const noexcept override { return true; }
  bool wants_large_batches() const noexcept override { return true; }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    const std::uint32_t count = batch.limits.chunks;
    if (count == 0) return cudaSuccess;
    using List = device::gpu::StreamList<ZstdStream>;
    ZstdJob job;
    auto* const streams_count = reinterpret_cast<std::uint32_t*>(batch.scratch);
    job.streams = reinterpret_cast<ZstdStream*>(batch.scratch + List::kStreamsAt);
    job.count = streams_count;
    const unsigned blocks = (count + kThreads - 1) / kThreads;
    list_streams<<<blocks, kThreads, 0, stream>>>(batch.chunks, count, job.streams, streams_count);
    const std::uint64_t used = List::end(count);
    job.limits = zstd_limits_of(batch.limits);
    job.exact = exact_;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    job.scratch = batch.scratch + used;
    job.scratch_bytes = batch.scratch_bytes - used;
    job.multiprocessors = batch.multiprocessors;
    job.marks = batch.marks;
    job.index = batch.index;
    if (const int error = enqueue_zstd(job, stream); error != cudaSuccess) return error;
    tell_sizes<<<blocks, kThreads, 0, stream>>>(batch.chunks, count, job.streams, batch.outcomes);
    return cudaGetLastError();
  }

 private:
  const bool exact_;
};

}  // namespace

// No parameters: a stream says everything itself.
std::unique_ptr<device::gpu::GpuCodec> make_zstd_stage(const device::DecodeStage& stage) {
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) ZstdStage(stage.exact));
}

}  // namespace headrace::codec::gpu
