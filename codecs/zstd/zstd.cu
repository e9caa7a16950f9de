// The launches of the zstd decoder: zstd_job_device.cuh says what each does.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "zstd_checksum_device.cuh"
#include "zstd_entropy_device.cuh"
#include "zstd_execute_device.cuh"

namespace headrace::codec::gpu {
namespace {

using zstd::Job;

constexpr unsigned kScanThreads = 512, kListThreads = 128, kLiteralsThreads = 32 * zstd::kLiteralsWarps,
                   kSequenceThreads = 128, kWarpThreads = 32;
static_assert(kSequenceThreads <= zstd::kMostThreads);

__global__ void __launch_bounds__(kScanThreads) zstd_share(Job job) {
  __shared__ std::uint32_t shared[kScanThreads];
  zstd::share_body(job, shared);
}
__global__ void __launch_bounds__(kListThreads) zstd_frames(Job job) { zstd::frames_body(job); }
__global__ void __launch_bounds__(kScanThreads) zstd_scan_blocks(Job job) {
  __shared__ std::uint32_t shared[kScanThreads];
  zstd::scan_blocks_body(job, shared);
}
__global__ void __launch_bounds__(kListThreads) zstd_parse(Job job) { zstd::parse_body(job); }
__global__ void __launch_bounds__(kListThreads) zstd_sources(Job job) { zstd::sources_body(job); }
__global__ void __launch_bounds__(kScanThreads) zstd_scan_units(Job job) {
  __shared__ std::uint64_t shared[kScanThreads];
  zstd::scan_units_body(job, shared);
}
__global__ void __launch_bounds__(kListThreads) zstd_place(Job job) { zstd::place_body(job); }
__global__ void __launch_bounds__(kListThreads) zstd_list(Job job) { zstd::list_body(job); }

__global__ void __launch_bounds__(kLiteralsThreads) zstd_literals(Job job, std::uint32_t round) {
  __shared__ zstd::LiteralsSpace space;
  zstd::literals_body(job, round, space);
}
__global__ void __launch_bounds__(kLiteralsThreads) zstd_entropy(Job job, std::uint32_t round, unsigned walkers) {
  extern __shared__ uint4 dynamic[];
  zstd::entropy_body(job, round, walkers, *reinterpret_cast<zstd::EntropySpace*>(dynamic));
}
template <unsigned kBlocks>
__global__ void __launch_bounds__(kWarpThreads) zstd_walk(Job job, std::uint32_t round) {
  extern __shared__ uint4 dynamic[];
  zstd::walk_body<kBlocks>(job, round, *reinterpret_cast<zstd::WalkSpace<kBlocks>*>(dynamic));
}
__global__ void __launch_bounds__(kSequenceThreads) zstd_extract(Job job, std::uint32_t round) {
  __shared__ zstd::ExtractSpace space;
  zstd::extract_body(job, round, space);
}
__global__ void __launch_bounds__(kListThreads) zstd_settle(Job job, std::uint32_t round) {
  zstd::settle_body(job, round);
}
__global__ void __launch_bounds__(kSequenceThreads) zstd_check(Job job, std::uint32_t round) {
  __shared__ std::uint32_t ticket;
  zstd::check_body(job, round, ticket);
}
__global__ void __launch_bounds__(kWarpThreads) zstd_execute(Job job, std::uint32_t round) {
  zstd::execute_body(job, round);
}
__global__ void __launch_bounds__(kListThreads) zstd_checksums(Job job) { zstd::checksums_body(job); }

unsigned blocks_for(std::uint64_t items, std::uint64_t per_block, std::uint64_t most) {
  return static_cast<unsigned>(std::clamp<std::uint64_t>((items + per_block - 1) / per_block, 1, most));
}

template <unsigned kBlocks>
cudaError_t launch_walk(const Job& job, std::uint32_t round, unsigned blocks, device::gpu::NativeStream stream) {
  constexpr int kShared = sizeof(zstd::WalkSpace<kBlocks>);
  const cudaError_t error =
      cudaFuncSetAttribute(zstd_walk<kBlocks>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (error != cudaSuccess) return error;
  zstd_walk<kBlocks><<<blocks, kWarpThreads, kShared, stream>>>(job, round);
  return cudaGetLastError();
}

// Literals and walks. `least`: Blocks that there are at least, as far as the host knows.
cudaError_t launch_entropy(const Job& job, std::uint32_t round, std::uint64_t least, std::uint64_t block_count,
                           unsigned units, const device::gpu::Marks& marks, device::gpu::NativeStream stream) {
  if (least <= std::uint64_t{units} * zstd::kLiteralsWarps) {
    // Few: a warp each, four a multiprocessor, which is one for each of its schedulers.
    constexpr int kShared = sizeof(zstd::EntropySpace);
    const cudaError_t error = cudaFuncSetAttribute(zstd_entropy, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    if (error != cudaSuccess) return error;
    const unsigned walkers = blocks_for(block_count, zstd::kLiteralsWarps, units);
    const unsigned others = blocks_for(block_count, 1, std::uint64_t{units} * 3);
    zstd_entropy<<<walkers + others, kLiteralsThreads, kShared, stream>>>(job, round, walkers);
    marks.queued("zstd literals and walk");
    return cudaGetLastError();
  }
  zstd_literals<<<blocks_for(block_count, 1, std::uint64_t{units} * 5), kLiteralsThreads, 0, stream>>>(job, round);
  marks.queued("zstd literals");
  const cudaError_t error =
      least <= std::uint64_t{units} * 16
          ? launch_walk<4>(job, round, blocks_for(block_count, 4, std::uint64_t{units} * 4), stream)
          : launch_walk<8>(job, round, blocks_for(block_count, 8, std::uint64_t{units} * 2), stream);
  marks.queued("zstd walk");
  return error;
}

}  // namespace

std::uint64_t zstd_scratch_bytes(const ZstdLimits& limits) noexcept { return zstd::Layout(limits, {}).end; }

int enqueue_zstd(const ZstdJob& from, device::gpu::NativeStream stream) noexcept {
  const ZstdLimits& limits = from.limits;
  if (limits.streams == 0) return cudaSuccess;
  const zstd::Layout layout(limits, {});
  if (layout.block_count > UINT32_MAX || layout.end > from.scratch_bytes) return cudaErrorInvalidValue;
  Job job;
  job.streams = from.streams;
  job.count = from.count;
  job.most_streams = limits.streams;
  job.outcomes = from.outcomes;
  job.stage = from.stage;
  job.exact = from.exact;
  job.single_frame = from.single_frame;
  layout.fill_in(job, from.scratch);
  if (const cudaError_t error = cudaMemsetAsync(from.scratch, 0, layout.zeroed_bytes, stream); error != cudaSuccess) {
    return error;
  }
  const auto units = static_cast<std::uint64_t>(std::max(from.multiprocessors, 1));
  const unsigned by_stream = blocks_for(limits.streams, kListThreads, units * 32);
  const unsigned by_stream_warp = blocks_for(limits.streams, kListThreads / 32, units * 16);
  const unsigned by_block = blocks_for(layout.block_count, kListThreads, units * 16);
  zstd_share<<<1, kScanThreads, 0, stream>>>(job);
  zstd_frames<<<by_stream, kListThreads, 0, stream>>>(job);
  zstd_scan_blocks<<<1, kScanThreads, 0, stream>>>(job);
  zstd_parse<<<by_block, kListThreads, 0, stream>>>(job);
  zstd_sources<<<by_stream_warp, kListThreads, 0, stream>>>(job);
  zstd_scan_units<<<1, kScanThreads, 0, stream>>>(job);
  zstd_place<<<by_block, kListThreads, 0, stream>>>(job);
  zstd_list<<<by_block, kListThreads, 0, stream>>>(job);
  from.marks.queued("zstd headers");
  const std::uint64_t least = std::max<std::uint64_t>(limits.least_streams, limits.dst_bytes / zstd::kMaxBlockBytes);
  for (std::uint32_t round = 0; round < layout.rounds; ++round) {
    const cudaError_t error =
        launch_entropy(job, round, least, layout.block_count, static_cast<unsigned>(units), from.marks, stream);
    if (error != cudaSuccess) return error;
    const unsigned by_walk = blocks_for(layout.block_count, 1, units * 8);
    zstd_extract<<<by_walk, kSequenceThreads, 0, stream>>>(job, round);
    zstd_settle<<<by_stream_warp, kListThreads, 0, stream>>>(job, round);
    zstd_check<<<by_walk, kSequenceThreads, 0, stream>>>(job, round);
    from.marks.queued("zstd sequences");
    zstd_execute<<<blocks_for(limits.streams, 1, units * 32), kWarpThreads, 0, stream>>>(job, round);
    from.marks.queued("zstd copies");
  }
  zstd_checksums<<<blocks_for(layout.block_count, kListThreads / 32, units * 8), kListThreads, 0, stream>>>(job);
  from.marks.queued("zstd checksums");
  return cudaGetLastError();
}

}  // namespace headrace::codec::gpu
