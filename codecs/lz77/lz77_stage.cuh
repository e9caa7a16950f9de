// StreamStage: the GPU stage of a codec whose chunks are one stream each. lz77_stage_device.cuh describes `Format`.
#pragma once

#include <cuda_runtime.h>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "lz77_stage_device.cuh"

namespace headrace::codec::gpu::lz77 {

template <class Format>
__global__ void list_streams(Format format, const device::gpu::Chunk* chunks, std::uint32_t count,
                             typename Format::Stream* streams, std::uint32_t* streams_count) {
  device::gpu::wait_for_earlier();
  list_streams_body(format, chunks, count, streams, streams_count);
}
template <class Stream>
__global__ void tell_sizes(device::gpu::Chunk* chunks, std::uint32_t count, const Stream* streams,
                           const std::uint64_t* outcomes) {
  device::gpu::wait_for_earlier();
  tell_sizes_body(chunks, count, streams, outcomes);
}

template <class Format>
class StreamStage final : public device::gpu::GpuCodec {
 public:
  StreamStage(const Format& format, bool exact) : format_(format), exact_(exact) {}

  std::uint64_t scratch_bytes(const device::gpu::Limits& limits) const noexcept override {
    return stage_scratch_bytes<Format>(limits);
  }
  std::uint64_t index_bytes(std::uint64_t dst_bytes) const noexcept override { return Format::index_bytes(dst_bytes); }
  bool ends_early() const noexcept override { return Format::kEndsEarly; }
  bool wants_large_batches() const noexcept override { return true; }
  bool can_load() const noexcept override { return true; }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    const std::uint32_t count = batch.limits.chunks;
    if (count == 0) return cudaSuccess;
    using Stream = typename Format::Stream;
    using List = device::gpu::StreamList<Stream>;
    auto* const streams_count = reinterpret_cast<std::uint32_t*>(batch.scratch);
    auto* const streams = reinterpret_cast<Stream*>(batch.scratch + List::kStreamsAt);
    constexpr unsigned kThreads = 128;
    const unsigned blocks = (count + kThreads - 1) / kThreads;
    device::gpu::Launcher launch(stream);
    launch(list_streams<Format>, blocks, kThreads, 0, format_, batch.chunks, count, streams, streams_count);
    if (launch.error() != cudaSuccess) return launch.error();
    const std::uint64_t used = List::end(count);
    typename Format::Job job;
    job.streams = streams;
    job.count = streams_count;
    job.limits = limits_of(batch.limits);
    job.exact = exact_;
    job.outcomes = batch.outcomes;
    job.stage = batch.stage;
    job.scratch = batch.scratch + used;
    job.scratch_bytes = batch.scratch_bytes - used;
    job.multiprocessors = batch.multiprocessors;
    job.marks = batch.marks;
    if constexpr (requires { job.index; }) job.index = batch.index;
    if (const int error = Format::enqueue(job, stream); error != cudaSuccess) return error;
    launch(tell_sizes<Stream>, blocks, kThreads, 0, batch.chunks, count, streams, batch.outcomes);
    return launch.error();
  }

 private:
  const Format format_;
  const bool exact_;
};

}  // namespace headrace::codec::gpu::lz77
