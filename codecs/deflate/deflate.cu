// Launches of the DEFLATE decoder; deflate_job_device.cuh describes the steps.
#include <cuda_runtime.h>

#include <algorithm>

#include "backends/dev_cuda/gpu_launch.cuh"
#include "codecs/lz77/lz77_launch.cuh"
#include "deflate_chain_device.cuh"
#include "deflate_checksum_device.cuh"
#include "deflate_find_device.cuh"
#include "deflate_output_device.cuh"
#include "deflate_pieces_device.cuh"

namespace headrace::codec::gpu {
namespace {

using deflate::Job;
using device::gpu::blocks_for;
using device::gpu::Launcher;
using device::gpu::wait_for_earlier;

constexpr unsigned kScanThreads = 512, kListThreads = 128, kFindThreads = 32 * deflate::kFindWarps, kWarpThreads = 32,
                   kFindBlocks = 8, kSumsBlocks = 2;
// Blocks are searched for only if there are at most kSearchedStreams streams per multiprocessor, in streams of at least
// kSearchedBytes (encoded). The search costs 5 ms per GiB, whatever it finds. A warp takes 60 microseconds per block,
// and a multiprocessor runs at least 16 warps. With more than a few streams per multiprocessor, decoding without a
// search is therefore as fast.
constexpr std::uint32_t kSearchedStreams = 4, kSearchedBytes = 24 << 10;

__device__ const CrcTables kTables = make_crc_tables(kCrc32Polynomial);

__global__ void __launch_bounds__(kListThreads) deflate_begin(Job job) {
  wait_for_earlier();
  deflate::begin_body(job);
}
__global__ void __launch_bounds__(lz77::kScanTileThreads) deflate_share(Job job) {
  wait_for_earlier();
  __shared__ lz77::ScanShared<deflate::StreamShares> shared;
  deflate::share_body(job, shared);
}
__global__ void __launch_bounds__(kFindThreads, kFindBlocks) deflate_find(Job job) {
  wait_for_earlier();
  __shared__ deflate::FindSpace space;
  deflate::find_body(job, space);
}
// As many per multiprocessor as shared memory has room for.
template <unsigned kWarps>
inline constexpr unsigned kTraceBlocks = (227 << 10) / (sizeof(deflate::TraceSpace<kWarps>) + 1024);
template <unsigned kWarps>
__global__ void __launch_bounds__(32 * kWarps, kTraceBlocks<kWarps>) deflate_trace(Job job) {
  wait_for_earlier();
  __shared__ deflate::TraceSpace<kWarps> space;
  deflate::trace_body<kWarps>(job, space);
}
__global__ void __launch_bounds__(kWarpThreads) deflate_chain(Job job) {
  wait_for_earlier();
  __shared__ deflate::ChainSpace space;
  deflate::chain_body(job, space);
}
__global__ void __launch_bounds__(lz77::kScanTileThreads) deflate_scan(Job job) {
  wait_for_earlier();
  __shared__ lz77::ScanShared<deflate::StreamOutput> shared;
  deflate::scan_body(job, shared);
}
__global__ void __launch_bounds__(kListThreads) deflate_list(Job job) {
  wait_for_earlier();
  deflate::list_body(job);
}
__global__ void __launch_bounds__(kScanThreads) deflate_rounds(Job job) {
  wait_for_earlier();
  __shared__ std::uint64_t shared[kScanThreads / 32];
  deflate::rounds_body(job, shared);
}
__global__ void __launch_bounds__(kListThreads) deflate_place(Job job) {
  wait_for_earlier();
  deflate::place_body(job);
}
template <unsigned kWarps>
__global__ void __launch_bounds__(32 * kWarps) deflate_decode(Job job, std::uint32_t round) {
  wait_for_earlier();
  __shared__ deflate::DecodeSpace<kWarps> space;
  deflate::decode_body<kWarps>(job, round, space);
}
__global__ void __launch_bounds__(kChecksumThreads, kSumsBlocks) deflate_sums(Job job) {
  wait_for_earlier();
  __shared__ ChecksumShared shared;
  deflate::sums_body(job, kTables, shared);
}
__global__ void __launch_bounds__(kListThreads) deflate_join(Job job) {
  wait_for_earlier();
  deflate::join_body(job, kTables);
}
__global__ void __launch_bounds__(kListThreads) deflate_verdict(Job job) {
  wait_for_earlier();
  deflate::verdict_body(job, kTables);
}

}  // namespace

int enqueue_deflate(const DeflateJob& from, device::gpu::NativeStream stream) noexcept {
  const lz77::StreamLimits& limits = from.limits;
  if (limits.streams == 0) return cudaSuccess;
  const deflate::Layout layout(limits, {});
  if (layout.piece_count > UINT32_MAX || layout.cell_count > UINT32_MAX || layout.end > from.scratch_bytes) {
    return cudaErrorInvalidValue;
  }
  const auto units = static_cast<std::uint64_t>(std::max(from.multiprocessors, 1));
  Job job;
  job.streams = from.streams;
  job.count = from.count;
  job.max_streams = limits.streams;
  job.outcomes = from.outcomes;
  job.stage = from.stage;
  job.exact = from.exact;
  job.max_searched = static_cast<std::uint32_t>(units) * kSearchedStreams;
  job.min_searched_bytes = kSearchedBytes;
  job.max_pass_turns = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(deflate::kPassTurns + limits.src_bytes / deflate::kBatchBytesPerPassTurn, UINT32_MAX));
  layout.fill_in(job, from.scratch);
  const lz77::Choice choice = lz77::choose(units, layout.tile_layout);
  const unsigned by_piece = blocks_for(layout.piece_count, kListThreads, units * 16);
  Launcher launch(stream);
  launch.fill(from.scratch, 0, layout.zeroed_bytes);
  launch.fill(job.starts, 0xFF, layout.segment_count * sizeof(*job.starts));  // kNone
  // One thread per stream, or one warp if streams are few enough to be searched.
  const auto by_warp = std::min<std::uint64_t>(limits.streams, job.max_searched);
  launch(deflate_begin,
         std::max(blocks_for(limits.streams, kListThreads, units * 16),
                  blocks_for(by_warp, kListThreads / 32, units * 16)),
         kListThreads, 0, job);
  const unsigned scan_blocks = blocks_for(lz77::scan_tiles(limits.streams), 1, units);
  launch(deflate_share, scan_blocks, lz77::kScanTileThreads, 0, job);
  launch(deflate_find, blocks_for(layout.segment_count * deflate::kFindParts, deflate::kFindWarps, units * kFindBlocks),
         kFindThreads, 0, job);
  from.marks.queued("deflate block search");
  // As many as shared memory has room for.
  const auto by_shared = [&](std::uint64_t items, std::size_t bytes) {
    return blocks_for(items, 1, units * ((227 << 10) / (bytes + 1024)));
  };
  const bool maybe_few = limits.min_streams <= job.max_searched, maybe_many = limits.streams > job.max_searched;
  const auto trace = [&]<unsigned kWarps>() {
    launch(deflate_trace<kWarps>, by_shared(layout.segment_count, sizeof(deflate::TraceSpace<kWarps>)), 32 * kWarps, 0,
           job);
  };
  if (maybe_few) trace.operator()<deflate::kWidth>();
  if (maybe_many) trace.operator()<1>();
  from.marks.queued("deflate trace");
  launch(deflate_chain, by_shared(limits.streams, sizeof(deflate::ChainSpace)), kWarpThreads, 0, job);
  launch(deflate_scan, scan_blocks, lz77::kScanTileThreads, 0, job);
  launch(deflate_list, blocks_for(layout.segment_count, kListThreads / 32, units * 16), kListThreads, 0, job);
  launch(deflate_rounds, 1, kScanThreads, 0, job);
  launch(deflate_place, by_piece, kListThreads, 0, job);
  from.marks.queued("deflate lists");
  for (std::uint32_t round = 0; round < layout.rounds.count; ++round) {
    const auto decode = [&]<unsigned kWarps>() {
      launch(deflate_decode<kWarps>, by_shared(layout.piece_count, sizeof(deflate::DecodeSpace<kWarps>)), 32 * kWarps,
             0, job, round);
    };
    if (maybe_few) decode.operator()<deflate::kWidth>();
    if (maybe_many) decode.operator()<1>();
    from.marks.queued("deflate literals and sequences");
    lz77::launch_output(launch, deflate::Output{job, round}, choice, job.tiles, &job.round[round].output,
                        limits.min_streams, limits.streams, units);
    from.marks.queued("deflate copies");
  }
  launch(deflate_sums, blocks_for(layout.piece_count, 1, units * kSumsBlocks), kChecksumThreads, 0, job);
  launch(deflate_join, by_piece, kListThreads, 0, job);
  launch(deflate_verdict, by_piece, kListThreads, 0, job);
  from.marks.queued("deflate checksums");
  return launch.error();
}

}  // namespace headrace::codec::gpu
