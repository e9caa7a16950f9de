// numcodecs' lz4 on the GPU: the decoded size (4 bytes, little-endian), then one raw block. One stream per chunk.
#include <cuda_runtime.h>

#include <memory>
#include <new>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz4_scratch_device.cuh"
#include "lz4_stage_device.cuh"
#include "lz4_tiles.h"

namespace headrace::codec::gpu {
namespace {

constexpr unsigned kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    list_streams(device::gpu::Chunk* chunks, std::uint32_t count, bool exact, std::uint64_t* outcomes, unsigned stage,
                 Lz4Stream* streams, std::uint32_t* streams_count) {
  device::gpu::wait_for_earlier();
  list_lz4_streams_body(chunks, count, exact, outcomes, stage, streams, streams_count);
}

class Lz4Stage final : public device::gpu::GpuCodec {
 public:
  explicit Lz4Stage(bool exact) : exact_(exact) {}

  std::uint64_t scratch_bytes(const device::gpu::Limits& limits) const noexcept override {
    return lz4_stage_scratch_bytes(limits);
  }

  bool can_load() const noexcept override { return true; }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    using List = device::gpu::StreamList<Lz4Stream>;
    std::byte* const scratch = batch.scratch;
    auto* streams_count = reinterpret_cast<std::uint32_t*>(scratch);
    auto* streams = reinterpret_cast<Lz4Stream*>(scratch + List::kStreamsAt);
    const std::uint64_t used = List::end(batch.limits.chunks);
    device::gpu::Chunk* chunks = batch.chunks;
    const std::uint32_t count = batch.limits.chunks;
    device::gpu::Launcher launch(stream);
    launch(list_streams, (count + kThreads - 1) / kThreads, kThreads, 0, chunks, count, exact_, batch.outcomes,
           batch.stage, streams, streams_count);
    if (launch.error() != cudaSuccess) return launch.error();
    Lz4Job job;
    job.streams = streams;
    job.count = streams_count;
    job.ticket = streams_count + 1;
    job.limits = lz4_limits_of(batch.limits);
    if (exact_) job.limits.min_dst_bytes = batch.limits.largest_dst_bytes;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    job.scratch = scratch + used;
    job.scratch_bytes = batch.scratch_bytes - used;
    job.multiprocessors = batch.multiprocessors;
    job.branch = batch.branch;
    return enqueue_lz4(job, stream);
  }

 private:
  const bool exact_;
};

}  // namespace

// Lz4TilesChoice decides which of the other two decoders takes a stream that is not small.
int enqueue_lz4(const Lz4Job& job, device::gpu::NativeStream stream) noexcept {
  bool all = false;
  const bool both = job.limits.min_dst_bytes <= kLz4Small && job.limits.largest_dst_bytes > kLz4Small;
  if (job.branch.stream == nullptr || !both) {
    if (const int error = enqueue_lz4_small(job, stream, all); error != cudaSuccess) return error;
    return all ? enqueue_lz4_inorder(job, stream) : enqueue_lz4_tiles(job, stream);
  }
  // Decodes large streams concurrently with the small ones: the short last block of a Blosc container is a single
  // stream, which would otherwise keep the device waiting as long as all others.
  device::gpu::Launcher launch(stream), beside(job.branch.stream);
  launch.check(cudaEventRecord(job.branch.begun, stream));
  beside.join(job.branch.begun);
  if (const int error = enqueue_lz4_small(job, stream, all); error != cudaSuccess) return error;
  if (const int error = enqueue_lz4_large(job, beside); error != cudaSuccess) return error;
  beside.check(cudaEventRecord(job.branch.ended, job.branch.stream));
  launch.check(beside.error());
  launch.join(job.branch.ended);
  return enqueue_lz4_inorder(job, launch);
}

std::unique_ptr<device::gpu::GpuCodec> make_lz4_stage(const device::DecodeStage& stage) {
  return std::unique_ptr<device::gpu::GpuCodec>(new (std::nothrow) Lz4Stage(stage.exact));
}

}  // namespace headrace::codec::gpu
