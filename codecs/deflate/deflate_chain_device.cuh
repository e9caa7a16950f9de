// Step of the DEFLATE decoder that follows runs from a stream's beginning, and fills gaps. Device code without a CUDA
// header.
#pragma once

#include "deflate_trace_device.cuh"

namespace headrace::codec::gpu::deflate {

// Segments that a lane examines per turn; and runs per lane whose data it holds.
inline constexpr std::uint32_t kSegmentsEach = 16, kSegmentsTurn = 32 * kSegmentsEach;
inline constexpr std::uint32_t kRunsEach = 4, kRunsTurn = 32 * kRunsEach;

struct ChainSpace {
  TraceSpace<1> trace;
  std::uint16_t runs[kSegmentsTurn];  // of a turn: segments with runs, in order
};

// Totals of runs, and the beginning of the member that is open after them.
struct RunSum {
  std::uint32_t out = 0, pieces = 0, units = 0;  // saturated: see sum_capped()
  bool ends_member = false;
  std::uint32_t member_bytes = 0, member_pieces = 0;  // since the last member's end; totals if no member ends

  __device__ void add(const RunSum& next) {
    out = sum_capped(out, next.out);
    pieces = sum_capped(pieces, next.pieces);
    units = sum_capped(units, next.units);
    member_bytes = next.ends_member ? next.member_bytes : sum_capped(member_bytes, next.member_bytes);
    member_pieces = next.ends_member ? next.member_pieces : sum_capped(member_pieces, next.member_pieces);
    ends_member = ends_member || next.ends_member;
  }
};

__device__ inline RunSum sum_of(const Run& run) {
  return {run.bytes, run.pieces, run.units, run.ends_member, run.member_bytes, run.member_pieces};
}
__device__ inline RunSum from_lane(const RunSum& sum, unsigned lane) {
  return {__shfl_sync(kAllLanes, sum.out, lane),          __shfl_sync(kAllLanes, sum.pieces, lane),
          __shfl_sync(kAllLanes, sum.units, lane),        __shfl_sync(kAllLanes, sum.ends_member ? 1u : 0u, lane) != 0,
          __shfl_sync(kAllLanes, sum.member_bytes, lane), __shfl_sync(kAllLanes, sum.member_pieces, lane)};
}

// All runs of a stream together have to fit its output. By one thread.
__device__ inline void end_stream(const Job& job, std::uint32_t i, const RunSum& all) {
  StreamState& state = job.states[i];
  DeflateStream& stream = job.streams[i];
  if (all.out > stream.dst_bytes) {
    give_up(job, stream.chunk, stream.src_bytes, DecodeReason::kLength);
  } else if (job.exact && all.out != stream.dst_bytes) {
    give_up(job, stream.chunk, stream.src_bytes, DecodeReason::kWrongSize);
  } else {
    stream.dst_bytes = all.out;
    state.pieces = all.pieces;
    state.units = all.units;
  }
}

// A stream that was not searched, so that it is one run. By one thread.
__device__ inline void chain_alone(const Job& job, std::uint32_t i) {
  const StreamState& state = job.states[i];
  const DeflateStream& stream = job.streams[i];
  if (state.segments == 0 || !fine(job, stream.chunk)) return;
  Run& run = job.runs[state.first_segment + state.start / kSegmentBits];
  run.out_before = run.pieces_before = run.units_before = run.member_out = run.member_piece = 0;
  if (run.status == RunStatus::kEnded) {
    end_stream(job, i, sum_of(run));
  } else if (run.status == RunStatus::kBad) {
    give_up(job, stream.chunk, run.bad_at, static_cast<DecodeReason>(run.reason));
  } else {
    give_up(job, stream.chunk, 0, DecodeReason::kHostOnly);  // unreachable: there is no run to lead to
  }
}

// By a warp. Afterwards, every remaining run is connected with the stream's beginning.
__device__ inline void chain_stream(const Job& job, ChainSpace& space, std::uint32_t i, unsigned lane) {
  const StreamState& state = job.states[i];
  const DeflateStream& stream = job.streams[i];
  const std::uint32_t first_segment = state.first_segment, segments = state.segments;
  RunSum before;
  for (std::uint32_t base = 0; base < segments;) {
    // Loads the runs of some segments, or as many as fit, all at once.
    bool any[kSegmentsEach];
    HEADRACE_DEFLATE_UNROLL for (std::uint32_t k = 0; k < kSegmentsEach; ++k) {
      const std::uint32_t x = base + 32 * k + lane;
      any[k] = job.starts[first_segment + (x < segments ? x : segments - 1)] != kNone && x < segments;
    }
    std::uint32_t count = 0;
    HEADRACE_DEFLATE_UNROLL for (std::uint32_t k = 0; k < kSegmentsEach; ++k) {
      const unsigned votes = __ballot_sync(kAllLanes, any[k]);
      const std::uint32_t place = count + static_cast<std::uint32_t>(__popc(votes & lanes_below(lane)));
      if (any[k]) space.runs[place] = static_cast<std::uint16_t>(32 * k + lane);
      count += static_cast<std::uint32_t>(__popc(votes));
    }
    __syncwarp();
    std::uint32_t behind = base + kSegmentsTurn;  // where the next turn begins
    if (count > kRunsTurn) {
      behind = base + space.runs[kRunsTurn];
      count = kRunsTurn;
    }
    if (count == 0) {
      base = behind;
      continue;
    }
    std::uint32_t own[kRunsEach];  // segments; lanes without one repeat the last
    RunStatus statuses[kRunsEach];
    RunSum sums[kRunsEach];
    HEADRACE_DEFLATE_UNROLL for (std::uint32_t k = 0; k < kRunsEach; ++k) {
      const std::uint32_t place = lane * kRunsEach + k;
      own[k] = base + space.runs[place < count ? place : count - 1];
      const Run& run = job.runs[first_segment + own[k]];
      statuses[k] = run.status;
      sums[k] = sum_of(run);
    }
    __syncwarp();
    // The first of these runs that does not lead to the next.
    std::uint32_t own_stop = kNone;
    HEADRACE_DEFLATE_UNROLL for (std::uint32_t k = kRunsEach; k-- > 0;) {
      if (statuses[k] != RunStatus::kLinked) own_stop = own[k];
    }
    const std::uint32_t stop = __reduce_min_sync(kAllLanes, own_stop);
    const RunStatus status = stop == kNone ? RunStatus::kLinked : job.runs[first_segment + stop].status;
    if (status == RunStatus::kBad) {
      if (lane != 0) return;
      const Run& run = job.runs[first_segment + stop];
      give_up(job, stream.chunk, run.bad_at, static_cast<DecodeReason>(run.reason));
      return;
    }
    if (status == RunStatus::kPassed) {
      Tracer<1>(job, space.trace, i, first_segment + stop, lane).follow(true);
      continue;
    }
    const auto counts = [&](std::uint32_t k) { return lane * kRunsEach + k < count && own[k] <= stop; };
    RunSum sum;
    HEADRACE_DEFLATE_UNROLL for (std::uint32_t k = 0; k < kRunsEach; ++k) {
      if (counts(k)) sum.add(sums[k]);
    }
    RunSum upto = sum;
    for (unsigned step = 1; step < 32; step *= 2) {
      RunSum below = from_lane(upto, lane >= step ? lane - step : lane);
      if (lane < step) continue;
      below.add(upto);
      upto = below;
    }
    RunSum at = from_lane(upto, lane == 0 ? 0 : lane - 1);
    if (lane == 0) at = {};
    RunSum all = before;
    all.add(at);
    HEADRACE_DEFLATE_UNROLL for (std::uint32_t k = 0; k < kRunsEach; ++k) {
      if (!counts(k)) continue;
      Run& run = job.runs[first_segment + own[k]];
      run.out_before = all.out;
      run.pieces_before = all.pieces;
      run.units_before = all.units;
      run.member_out = all.out - all.member_bytes;
      run.member_piece = all.pieces - all.member_pieces;
      all.add(sums[k]);
    }
    before.add(from_lane(upto, 31));
    base = behind;
    if (status != RunStatus::kEnded) continue;
    for (std::uint32_t x = stop + 1 + lane; x < segments; x += 32) job.starts[first_segment + x] = kNone;
    if (lane != 0) return;
    end_stream(job, i, before);
    return;
  }
  // Unreachable: the last run ends or is bad.
  if (lane == 0) give_up(job, stream.chunk, 0, DecodeReason::kHostOnly);
}

__device__ inline void chain_body(const Job& job, ChainSpace& space) {
  const unsigned lane = lane_id();
  const std::uint32_t count = job.stream_count();
  if (!job.any_searched()) {
    for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
      chain_alone(job, i);
    }
    return;
  }
  for (;;) {
    const std::uint32_t i = take_ticket(job.totals->chain_ticket, lane);
    if (i >= count) return;
    if (job.states[i].segments != 0 && fine_for_warp(job, job.streams[i].chunk)) chain_stream(job, space, i, lane);
    __syncwarp();
  }
}

}  // namespace headrace::codec::gpu::deflate
