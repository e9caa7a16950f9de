// numcodecs' shuffle on the GPU: one launch for all chunks.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <new>

#include "device/gpu_stage.h"
#include "shuffle_device.cuh"

namespace headrace::codec::gpu {
namespace {

template <shuffle::UnshuffleWay kPath>
__global__ void __launch_bounds__(shuffle::kThreads, shuffle::blocks_per_unit(kPath))
    unshuffle_chunks(shuffle::ChunksJob job) {
  __shared__ unsigned shared[shuffle::kSharedWords<kPath>];
  shuffle::unshuffle_chunks_body<kPath>(job, shared);
}

class ShuffleStage final : public device::gpu::GpuCodec {
 public:
  ShuffleStage(unsigned width, bool exact) : width_(width), exact_(exact) {}

  std::uint64_t scratch_bytes(const device::gpu::Limits&) const noexcept override { return 0; }

  int enqueue(const device::gpu::Batch& batch, device::gpu::NativeStream stream) const noexcept override {
    if (batch.limits.chunks == 0) return cudaSuccess;
    shuffle::ChunksJob job;
    job.chunks = batch.chunks;
    job.outcomes = batch.outcomes;
    job.count = batch.limits.chunks;
    const std::uint64_t tile = shuffle::tile_bytes(width_);
    job.tiles_per_chunk = std::max<std::uint64_t>(1, (batch.limits.largest_dst_bytes + tile - 1) / tile);
    job.width = width_;
    job.exact = exact_;
    job.stage = batch.stage;
    const std::uint64_t tiles = job.count * job.tiles_per_chunk;
    const auto units = static_cast<std::uint64_t>(batch.multiprocessors);
    shuffle::with_path(shuffle::path_of(shuffle::Filter::kBytes, width_, nullptr, 0), [&](auto path) {
      const std::uint64_t blocks = std::min<std::uint64_t>(tiles, units * shuffle::blocks_per_unit(path()));
      unshuffle_chunks<path()><<<static_cast<unsigned>(blocks), shuffle::kThreads, 0, stream>>>(job);
    });
    return cudaGetLastError();
  }

 private:
  const unsigned width_;
  const bool exact_;
};

}  // namespace

// parameters[0]: bytes of an element.
std::unique_ptr<device::gpu::GpuCodec> make_shuffle_stage(const device::DecodeStage& stage) {
  if (stage.parameters[0] > shuffle::kMaxWidth) return nullptr;
  const auto width = static_cast<unsigned>(std::max<std::uint64_t>(1, stage.parameters[0]));
  return std::make_unique<ShuffleStage>(width, stage.exact);
}

}  // namespace headrace::codec::gpu
