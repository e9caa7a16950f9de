// Launches of the zstd decoder; zstd_job_device.cuh describes the steps.
#include <cuda_runtime.h>

#include <algorithm>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "codecs/lz77/lz77_launch.cuh"
#include "zstd_checksum_device.cuh"
#include "zstd_entropy_device.cuh"
#include "zstd_output_device.cuh"
#include "zstd_segments_device.cuh"

namespace headrace::codec::gpu {
namespace {

using device::gpu::blocks_for;
using device::gpu::Launcher;
using device::gpu::wait_for_earlier;
using zstd::Job;

constexpr unsigned kScanThreads = 512, kListThreads = 128, kLiteralsThreads = 32 * zstd::kLiteralsWarps,
                   kCheckThreads = 128, kWarpThreads = 32, kChainThreads = 1024;

// Streams of at most this decoded size have too few literals and sequences to fill large pieces.
constexpr std::uint64_t kShortStreamBytes = 32 << 10;
// A single thread block orders at most this many blocks.
constexpr std::uint64_t kFewBlocks = 1 << 15;
// Streams are prefetched into the L2 if there are at most kFetchStreams and they fit; block chains are searched for if
// they also exceed kChainBytes.
constexpr std::uint32_t kFetchStreams = 32;
constexpr std::uint64_t kFetchBytes = 40 << 20, kChainBytes = 12 << 20;

// Thread blocks from `walkers` on prefetch the streams into the L2 meanwhile: the header walk is a chain of dependent
// loads, and later steps need the rest.
__device__ void fetch_streams(const Job& job, unsigned walkers) {
  constexpr std::uint64_t kLine = 128;
  const std::uint32_t count = job.stream_count();
  for (std::uint32_t i = 0; i < count; ++i) {
    const ZstdStream& stream = job.streams[i];
    for (std::uint64_t at = ((blockIdx.x - walkers) * blockDim.x + threadIdx.x) * kLine; at < stream.src_bytes;
         at += (gridDim.x - walkers) * blockDim.x * kLine) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(stream.src + at));
    }
  }
}
__global__ void __launch_bounds__(kListThreads) zstd_frames(Job job, unsigned walkers) {
  wait_for_earlier();
  if (blockIdx.x < walkers) {
    zstd::frames_body(job);
  } else {
    fetch_streams(job, walkers);
  }
}
__global__ void __launch_bounds__(kChainThreads) zstd_chains(Job job, unsigned parts) {
  wait_for_earlier();
  __shared__ zstd::ChainSpace space;
  if (blockIdx.x < parts) {
    zstd::chains_body(job, parts, space);
  } else {
    fetch_streams(job, parts);
  }
}
__global__ void __launch_bounds__(kScanThreads) zstd_scan_blocks(Job job) {
  wait_for_earlier();
  __shared__ std::uint32_t shared[kScanThreads / 32];
  zstd::scan_blocks_body(job, shared);
}
__global__ void __launch_bounds__(kListThreads) zstd_parse(Job job) {
  wait_for_earlier();
  zstd::parse_body(job);
}
__global__ void __launch_bounds__(kListThreads) zstd_sources(Job job) {
  wait_for_earlier();
  zstd::sources_body(job);
}
// The four steps between `parse` and the rounds, for batches that one thread block can handle.
__global__ void __launch_bounds__(kScanThreads) zstd_order(Job job) {
  wait_for_earlier();
  __shared__ std::uint64_t shared[kScanThreads / 32];
  zstd::sources_body(job);
  __syncthreads();
  zstd::scan_units_body(job, shared);
  __syncthreads();
  zstd::place_body(job);
  __syncthreads();
  zstd::list_body(job);
}
__global__ void __launch_bounds__(kScanThreads) zstd_scan_units(Job job) {
  wait_for_earlier();
  __shared__ std::uint64_t shared[kScanThreads / 32];
  zstd::scan_units_body(job, shared);
}
__global__ void __launch_bounds__(kListThreads) zstd_place(Job job) {
  wait_for_earlier();
  zstd::place_body(job);
}
__global__ void __launch_bounds__(kListThreads) zstd_list(Job job) {
  wait_for_earlier();
  zstd::list_body(job);
}

template <std::int32_t kShareBits>
__global__ void __launch_bounds__(kWarpThreads) zstd_literals(Job job, std::uint32_t round) {
  wait_for_earlier();
  __shared__ zstd::WarpLiteralsSpace<kShareBits> space;
  zstd::literals_by_warp_body(job, round, space);
}
__global__ void __launch_bounds__(kLiteralsThreads, 2) zstd_entropy(Job job, std::uint32_t round, unsigned walkers) {
  wait_for_earlier();
  extern __shared__ uint4 dynamic[];
  zstd::entropy_body(job, round, walkers, *reinterpret_cast<zstd::EntropySpace*>(dynamic));
}
template <unsigned kLanes>
__global__ void __launch_bounds__(kLiteralsThreads) zstd_indexed(Job job, std::uint32_t round, unsigned walkers) {
  wait_for_earlier();
  __shared__ zstd::IndexedSpace<kLanes> space;
  zstd::indexed_body<kLanes>(job, round, walkers, space);
}
template <unsigned kBlocks>
__global__ void __launch_bounds__(kWarpThreads) zstd_walk(Job job, std::uint32_t round) {
  wait_for_earlier();
  extern __shared__ uint4 dynamic[];
  zstd::walk_body<kBlocks>(job, round, reinterpret_cast<zstd::WalkSpace<kBlocks>*>(dynamic));
}
template <unsigned kThreads>
__global__ void __launch_bounds__(kThreads) zstd_extract(Job job, std::uint32_t round) {
  wait_for_earlier();
  extern __shared__ uint4 dynamic[];
  zstd::extract_body(job, round, *reinterpret_cast<zstd::ExtractSpace<kThreads>*>(dynamic));
}
__global__ void __launch_bounds__(kListThreads) zstd_settle(Job job, std::uint32_t round) {
  wait_for_earlier();
  zstd::settle_body(job, round);
}
__global__ void __launch_bounds__(kCheckThreads) zstd_check(Job job, std::uint32_t round) {
  wait_for_earlier();
  __shared__ std::uint32_t ticket;
  zstd::check_body(job, round, ticket);
}
__global__ void __launch_bounds__(kListThreads) zstd_checksums(Job job) {
  wait_for_earlier();
  zstd::checksums_body(job);
}

template <unsigned kBlocks>
void launch_walk(Launcher& launch, const Job& job, std::uint32_t round, unsigned blocks) {
  constexpr int kShared = sizeof(zstd::WalkSpace<kBlocks>);
  launch.check(cudaFuncSetAttribute(zstd_walk<kBlocks>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  launch(zstd_walk<kBlocks>, blocks, kWarpThreads, kShared, job, round);
}

// What the host knows about a batch's Blocks; decides how many threads work on one.
struct Amount {
  std::uint64_t least, most;
  std::uint64_t units;  // multiprocessors
  bool few;             // at most one per scheduler of the device
  bool small;           // from short streams
};

void launch_entropy(Launcher& launch, const Job& job, std::uint32_t round, const Amount& amount,
                    const device::gpu::Marks& marks) {
  const std::uint64_t units = amount.units;
  if (job.index.any_given) {
    // The launches after this one find no literals, and only blocks to walk that have no index or a wrong one.
    const auto walkers = static_cast<unsigned>(units * 4);
    launch(amount.least <= units ? zstd_indexed<4> : zstd_indexed<8>, walkers + blocks_for(amount.most, 1, units * 4),
           kLiteralsThreads, 0, job, round, walkers);
    marks.queued("zstd literals and walk by index");
  }
  if (amount.few) {
    // One Block per warp and four warps per multiprocessor, one for each scheduler.
    constexpr int kShared = sizeof(zstd::EntropySpace);
    launch.check(cudaFuncSetAttribute(zstd_entropy, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    const unsigned walkers = blocks_for(amount.most, zstd::kLiteralsWarps, units);
    launch(zstd_entropy, walkers + blocks_for(amount.most, 1, units * 3), kLiteralsThreads, kShared, job, round,
           walkers);
    marks.queued("zstd literals and walk");
    return;
  }
  if (amount.small) {
    launch(zstd_literals<zstd::kShortLaneBits>, blocks_for(amount.most, 1, units * 26), kWarpThreads, 0, job, round);
  } else {
    launch(zstd_literals<zstd::kLaneBits>, blocks_for(amount.most, 1, units * 18), kWarpThreads, 0, job, round);
  }
  marks.queued("zstd literals");
  if (amount.least <= units * 16) {
    launch_walk<4>(launch, job, round, blocks_for(amount.most, 4, units * 8));
  } else {
    launch_walk<8>(launch, job, round, blocks_for(amount.most, 8, units * 4));
  }
  marks.queued("zstd walk");
}

void launch_extract(Launcher& launch, const Job& job, std::uint32_t round, const Amount& amount) {
  const auto with = [&]<unsigned kThreads>(unsigned each) {
    constexpr int kShared = sizeof(zstd::ExtractSpace<kThreads>);
    launch.check(cudaFuncSetAttribute(zstd_extract<kThreads>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    launch(zstd_extract<kThreads>, blocks_for(amount.most, 1, amount.units * each), kThreads, kShared, job, round);
  };
  if (amount.least <= amount.units) return with.template operator()<1024>(1);
  if (amount.few) return with.template operator()<512>(3);
  if (amount.small) return with.template operator()<64>(20);
  with.template operator()<128>(10);
}

}  // namespace

std::uint64_t zstd_index_bytes(std::uint64_t dst_bytes) noexcept { return zstd::max_index_bytes(dst_bytes); }

int enqueue_zstd(const ZstdJob& from, device::gpu::NativeStream stream) noexcept {
  const lz77::StreamLimits& limits = from.limits;
  if (limits.streams == 0) return cudaSuccess;
  const zstd::Layout layout(limits, {});
  if (layout.block_count > UINT32_MAX || layout.end > from.scratch_bytes) return cudaErrorInvalidValue;
  Job job;
  job.streams = from.streams;
  job.count = from.count;
  job.max_streams = limits.streams;
  job.outcomes = from.outcomes;
  job.stage = from.stage;
  job.exact = from.exact;
  job.single_frame = from.single_frame;
  job.index = from.index;
  const bool fetch = limits.streams <= kFetchStreams && limits.src_bytes <= kFetchBytes;
  const bool chains = fetch && limits.src_bytes >= kChainBytes;
  layout.fill_in(job, from.scratch, chains);
  const auto units = static_cast<std::uint64_t>(std::max(from.multiprocessors, 1));
  const lz77::Choice choice = lz77::choose(units, layout.tile_layout);
  const unsigned by_stream = blocks_for(limits.streams, kListThreads, units * 32);
  const unsigned by_stream_warp = blocks_for(limits.streams, kListThreads / 32, units * 16);
  const unsigned by_block = blocks_for(layout.block_count, kListThreads, units * 16);
  Launcher launch(stream);
  launch.fill(from.scratch, 0, layout.zeroed_bytes);
  if (chains) {
    const auto parts = static_cast<unsigned>(limits.src_bytes / job.part_bytes + limits.streams);
    launch(zstd_chains, parts + units, kChainThreads, 0, job, parts);
  }
  launch(zstd_frames, by_stream + (fetch && !chains ? units : 0), kListThreads, 0, job, by_stream);
  launch(zstd_scan_blocks, 1, kScanThreads, 0, job);
  launch(zstd_parse, blocks_for(layout.block_count, kListThreads / 32, units * 16), kListThreads, 0, job);
  if (limits.streams <= kScanThreads / 32 && layout.block_count <= kFewBlocks) {
    launch(zstd_order, 1, kScanThreads, 0, job);
  } else {
    launch(zstd_sources, by_stream_warp, kListThreads, 0, job);
    launch(zstd_scan_units, 1, kScanThreads, 0, job);
    launch(zstd_place, by_block, kListThreads, 0, job);
    launch(zstd_list, by_block, kListThreads, 0, job);
  }
  from.marks.queued("zstd headers");
  const std::uint64_t least = std::max<std::uint64_t>(limits.min_streams, limits.dst_bytes / zstd::kMaxBlockBytes);
  const Amount amount{least, layout.block_count, units, least <= units * zstd::kLiteralsWarps,
                      limits.dst_bytes <= limits.min_streams * kShortStreamBytes};
  for (std::uint32_t round = 0; round < layout.rounds.count; ++round) {
    launch_entropy(launch, job, round, amount, from.marks);
    launch_extract(launch, job, round, amount);
    launch(zstd_settle, by_stream_warp, kListThreads, 0, job, round);
    launch(zstd_check, blocks_for(layout.block_count, 1, units * 8), kCheckThreads, 0, job, round);
    from.marks.queued("zstd sequences");
    lz77::launch_output(launch, zstd::Output{job, round}, choice, job.tiles, &job.round[round].output,
                        limits.min_streams, limits.streams, units);
    from.marks.queued("zstd copies");
  }
  launch(zstd_checksums, blocks_for(layout.block_count, kListThreads / 32, units * 8), kListThreads, 0, job);
  from.marks.queued("zstd checksums");
  return launch.error();
}

}  // namespace headrace::codec::gpu
