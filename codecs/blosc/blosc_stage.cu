// Blosc1 containers on the GPU: launches the steps around the inner decoders.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <new>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "codecs/blosc/blosc_inner_device.cuh"
#include "codecs/blosc/blosc_scratch_device.cuh"
#include "device/gpu_stage.h"

namespace headrace::codec::gpu {
namespace {

using device::gpu::blocks_for;
using device::gpu::wait_for_earlier;

constexpr unsigned kListThreads = 128, kScanThreads = 512, kInnerThreads = 128;
// For at most this many containers, one thread block lists the streams in a single launch.
constexpr std::uint32_t kFewContainers = 16;

__global__ void blosc_parse(blosc::Job job) {
  wait_for_earlier();
  blosc::parse_body(job);
}
__global__ void __launch_bounds__(kScanThreads) blosc_scan(blosc::Job job) {
  __shared__ blosc::Shares shared[kScanThreads / 32];
  wait_for_earlier();
  blosc::scan_body(job, shared);
}
__global__ void blosc_streams(blosc::Job job) {
  wait_for_earlier();
  blosc::streams_body(job);
}
__global__ void blosc_seal(blosc::Job job) {
  wait_for_earlier();
  blosc::seal_body(job);
}
// All steps before the inner decoder, for few containers.
__global__ void __launch_bounds__(kScanThreads) blosc_list(blosc::Job job) {
  __shared__ blosc::Shares shared[kScanThreads / 32];
  wait_for_earlier();
  blosc::parse_body(job);
  __syncthreads();
  blosc::scan_body(job, shared);
  __syncthreads();
  blosc::streams_body(job);
  __syncthreads();
  blosc::seal_body(job);
}
__global__ void __launch_bounds__(kInnerThreads) blosc_inner(blosc::Job job) {
  wait_for_earlier();
  blosc::inner_body(job);
}
template <shuffle::UnshuffleWay kPath>
__global__ void __launch_bounds__(shuffle::kThreads, shuffle::blocks_per_unit(kPath)) blosc_epilogue(blosc::Job job) {
  __shared__ blosc::EpilogueShared<kPath> shared;
  wait_for_earlier();
  blosc::epilogue_body<kPath>(job, shared);
}

class BloscStage final : public device::gpu::GpuCodec {
 public:
  BloscStage(bool exact, blosc::Named named) : allowance_(blosc::allowance_for(named)), exact_(exact), named_(named) {}

  std::uint64_t scratch_bytes(const device::gpu::Limits& limits) const noexcept override {
    return blosc::stage_scratch_bytes(limits, named_);
  }

  bool wants_large_batches() const noexcept override { return named_ != blosc::Named::kOthers; }
  bool can_load() const noexcept override { return true; }
  std::uint64_t index_bytes(std::uint64_t dst_bytes) const noexcept override {
    return named_ == blosc::Named::kZstd ? zstd_index_bytes(dst_bytes) : 0;
  }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    const blosc::Layout layout(batch.limits, allowance_, named_);
    if (layout.stream_count > UINT32_MAX) return cudaErrorInvalidValue;
    blosc::Job job;
    job.chunks = batch.chunks;
    job.outcomes = batch.outcomes;
    job.count = batch.limits.chunks;
    job.exact = exact_;
    job.named = named_;
    job.stage = batch.stage;
    job.allowance = allowance_;
    layout.fill_in(job, batch.scratch);
    const std::uint64_t units = static_cast<std::uint64_t>(batch.multiprocessors);
    const unsigned list_blocks = blocks_for(layout.stream_count, kListThreads, units * 16);
    device::gpu::Launcher launch(stream);
    launch.fill(job.totals, 0, blosc::Layout::kTotalsBytes);
    if (job.count <= kFewContainers) {
      launch(blosc_list, 1, kScanThreads, 0, job);
    } else {
      launch(blosc_parse, blocks_for(job.count, kListThreads, UINT32_MAX / kListThreads), kListThreads, 0, job);
      launch(blosc_scan, 1, kScanThreads, 0, job);
      launch(blosc_streams, list_blocks, kListThreads, 0, job);
      launch(blosc_seal, list_blocks, kListThreads, 0, job);
    }
    if (launch.error() != cudaSuccess) return launch.error();
    batch.marks.queued("blosc headers");
    const int error = named_ == blosc::Named::kZstd   ? enqueue_inner_zstd(batch, layout, job, stream)
                      : named_ == blosc::Named::kZlib ? enqueue_inner_zlib(batch, layout, job, stream)
                                                      : enqueue_inner(batch, layout, job, launch, stream);
    if (error != cudaSuccess) return error;
    const std::uint64_t tiles = batch.limits.dst_bytes / (shuffle::kTileBytes / 2) + layout.stream_count;
    for (unsigned path = 0; path < shuffle::kPaths; ++path) {
      shuffle::with_path(static_cast<shuffle::UnshuffleWay>(path), [&](auto chosen) {
        launch(blosc_epilogue<chosen()>, blocks_for(tiles, 1, units * shuffle::blocks_per_unit(chosen())),
               shuffle::kThreads, 0, job);
      });
    }
    batch.marks.queued("blosc unshuffle");
    return launch.error();
  }

 private:
  static int enqueue_inner(const device::gpu::Batch& batch, const blosc::Layout& layout, const blosc::Job& job,
                           device::gpu::Launcher& launch, device::gpu::NativeStream stream) noexcept {
    Lz4Job inner;
    inner.streams = job.streams;
    inner.count = &job.totals->streams;
    inner.ticket = job.ticket;
    inner.limits = blosc::inner_limits<Lz4Limits>(batch.limits, layout);
    inner.outcomes = batch.outcomes;
    inner.stage = batch.stage;
    inner.scratch = batch.scratch + layout.inner;
    inner.scratch_bytes = batch.scratch_bytes - layout.inner;
    inner.multiprocessors = batch.multiprocessors;
    inner.branch = batch.branch;
    if (const int error = enqueue_lz4(inner, stream); error != cudaSuccess) return error;
    batch.marks.queued("blosc lz4");
    const auto most = static_cast<std::uint64_t>(batch.multiprocessors) * 16;
    launch(blosc_inner, blocks_for(layout.stream_count, kInnerThreads / 32, most), kInnerThreads, 0, job);
    batch.marks.queued("blosc other inner codecs");
    return launch.error();
  }
  // Arguments common to the decoders of entropy-coded streams.
  template <class Inner, class Streams>
  static Inner entropy_job(const device::gpu::Batch& batch, const blosc::Layout& layout, const blosc::Job& job,
                           Streams* streams) noexcept {
    Inner inner;
    inner.streams = streams;
    inner.count = &job.totals->streams;
    inner.limits = blosc::inner_limits<decltype(inner.limits)>(batch.limits, layout);
    inner.outcomes = batch.outcomes;
    inner.stage = batch.stage;
    inner.scratch = batch.scratch + layout.inner;
    inner.scratch_bytes = batch.scratch_bytes - layout.inner;
    inner.multiprocessors = batch.multiprocessors;
    inner.marks = batch.marks;
    return inner;
  }
  static int enqueue_inner_zstd(const device::gpu::Batch& batch, const blosc::Layout& layout, const blosc::Job& job,
                                device::gpu::NativeStream stream) noexcept {
    auto inner = entropy_job<ZstdJob>(batch, layout, job, job.zstd_streams);
    inner.single_frame = true;
    inner.index = batch.index;
    return enqueue_zstd(inner, stream);
  }
  static int enqueue_inner_zlib(const device::gpu::Batch& batch, const blosc::Layout& layout, const blosc::Job& job,
                                device::gpu::NativeStream stream) noexcept {
    return enqueue_deflate(entropy_job<DeflateJob>(batch, layout, job, job.deflate_streams), stream);
  }
  const blosc::Allowance allowance_;
  const bool exact_;
  const blosc::Named named_;
};

}  // namespace

// parameters[0]: a blosc::Named. Everything else is in the container.
std::unique_ptr<device::gpu::GpuCodec> make_blosc_stage(const device::DecodeStage& stage) {
  const auto named = stage.parameters[0] == 1   ? blosc::Named::kZstd
                     : stage.parameters[0] == 2 ? blosc::Named::kZlib
                                                : blosc::Named::kOthers;
  return std::make_unique<BloscStage>(stage.exact, named);
}

}  // namespace headrace::codec::gpu
