// delta of integers on the GPU: a prefix sum modulo 2^64, truncated to the decoded type.
//
// Included by delta_stage.cu, and by tests that run it on the CPU. Three launches: sum each tile; compute the sum
// before each tile of a chunk; process the tiles again, starting from that. Not used for bools and floats, which are
// not added this way.
#pragma once

#include <cstdint>

#include "codec/numbers.h"
#include "device/gpu_outcome.h"
#include "device/gpu_stage.h"

#ifdef __CUDACC__
#define HEADRACE_DELTA_UNROLL _Pragma("unroll")
#else
#define HEADRACE_DELTA_UNROLL
#endif

namespace headrace::codec::gpu {

constexpr unsigned kDeltaThreads = 256;
constexpr unsigned kDeltaRun = 8;  // adjacent elements per thread
constexpr std::uint64_t kDeltaTile = kDeltaRun * kDeltaThreads;

struct DeltaJob {
  Element stored, decoded;
  bool exact = true;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t chunks = 0;
  std::uint64_t tiles = 1;  // of the largest chunk
  device::gpu::Chunk* list = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
  std::uint64_t* sums = nullptr;  // [chunk][tile]: sum of the tile, then of all tiles before it
};

struct DeltaShared {
  std::uint64_t values[kDeltaThreads * (kDeltaRun + 1)];  // padded by one column to avoid bank conflicts
  std::uint64_t sums[kDeltaThreads];
};

namespace delta {

// Counts elements and checks sizes by the rules of ValueCodec.
__device__ inline device::DecodeReason count(const DeltaJob& job, std::uint64_t src_bytes, std::uint64_t& elements) {
  const unsigned from = width_bytes(job.stored.number), to = width_bytes(job.decoded.number);
  elements = src_bytes / from;
  if (src_bytes == 0) return device::DecodeReason::kTruncated;
  const bool holds = job.exact ? job.capacity_bytes % to == 0 && elements == job.capacity_bytes / to
                               : elements <= job.capacity_bytes / to;
  return holds && src_bytes % from == 0 ? device::DecodeReason::kNone : device::DecodeReason::kWrongSize;
}

__device__ inline unsigned slot(unsigned i) { return i + i / kDeltaRun; }

// Loads the tile's elements into shared memory, extended to 64 bits, with zeros past the end.
__device__ inline void load_tile(const DeltaJob& job, const device::gpu::Chunk& chunk, std::uint64_t first,
                                 std::uint64_t elements, DeltaShared& shared) {
  const unsigned from = width_bytes(job.stored.number);
  const bool words = numbers::is_aligned(chunk.src, from);
  HEADRACE_DELTA_UNROLL
  for (unsigned i = threadIdx.x; i < kDeltaTile; i += kDeltaThreads) {
    std::uint64_t bits = 0;
    if (first + i < elements) {
      bits = numbers::load(chunk.src + (first + i) * from, job.stored, words);
    }
    shared.values[slot(i)] = numbers::extend(bits, job.stored.number);
  }
  __syncthreads();
}

// Inclusive prefix sum of shared.sums.
__device__ inline void scan(DeltaShared& shared) {
  const unsigned t = threadIdx.x;
  for (unsigned step = 1; step < kDeltaThreads; step *= 2) {
    __syncthreads();
    const std::uint64_t before = t >= step ? shared.sums[t - step] : 0;
    __syncthreads();
    shared.sums[t] += before;
  }
  __syncthreads();
}

}  // namespace delta

// Pass 0 sums tiles, pass 2 writes them. REQUIRES: thread blocks have kDeltaThreads.
__device__ inline void delta_tiles_body(const DeltaJob& job, bool write, DeltaShared& shared) {
  const unsigned t = threadIdx.x, to = width_bytes(job.decoded.number);
  const std::uint64_t total = job.chunks * job.tiles;
  for (std::uint64_t item = blockIdx.x; item < total; item += gridDim.x) {
    const std::uint64_t chunk = item / job.tiles, first = item % job.tiles * kDeltaTile;
    if (job.outcomes[chunk] != device::DecodeOutcome::kOk) continue;  // not changed by these launches
    const device::gpu::Chunk& stream = job.list[chunk];
    std::uint64_t elements = 0;
    if (delta::count(job, stream.src_bytes, elements) != device::DecodeReason::kNone || first >= elements) continue;
    delta::load_tile(job, stream, first, elements, shared);
    std::uint64_t run = 0;
    for (unsigned i = 0; i < kDeltaRun; ++i) run += shared.values[t * (kDeltaRun + 1) + i];
    shared.sums[t] = run;
    delta::scan(shared);
    if (!write) {
      if (t == 0) job.sums[item] = shared.sums[kDeltaThreads - 1];
      __syncthreads();
      continue;
    }
    std::uint64_t sum = shared.sums[t] - run + job.sums[item];
    for (unsigned i = 0; i < kDeltaRun; ++i) {
      sum += shared.values[t * (kDeltaRun + 1) + i];
      shared.values[t * (kDeltaRun + 1) + i] = sum;
    }
    __syncthreads();
    const bool words = numbers::is_aligned(stream.dst, to);
    for (unsigned i = t; i < kDeltaTile && first + i < elements; i += kDeltaThreads) {
      numbers::store(stream.dst + (first + i) * to, job.decoded, words, shared.values[delta::slot(i)]);
    }
    __syncthreads();
  }
}

// Pass 1, one block per chunk: replaces each tile's sum by the sum of all tiles before it. Also checks sizes.
__device__ inline void delta_carry_body(const DeltaJob& job, DeltaShared& shared) {
  const std::uint32_t chunk = blockIdx.x;
  const unsigned t = threadIdx.x;
  if (job.outcomes[chunk] != device::DecodeOutcome::kOk) return;
  device::gpu::Chunk& stream = job.list[chunk];
  std::uint64_t elements = 0;
  const device::DecodeReason reason = delta::count(job, stream.src_bytes, elements);
  __syncthreads();  // all threads have read the outcome
  if (reason != device::DecodeReason::kNone) {
    if (t == 0) job.outcomes[chunk] = device::gpu::pack_outcome(job.stage, 0, reason);
    return;
  }
  if (t == 0) stream.dst_bytes = elements * width_bytes(job.decoded.number);
  const std::uint64_t tiles = (elements + kDeltaTile - 1) / kDeltaTile;
  std::uint64_t* const sums = job.sums + static_cast<std::uint64_t>(chunk) * job.tiles;
  std::uint64_t carry = 0;
  for (std::uint64_t first = 0; first < tiles; first += kDeltaThreads) {
    const std::uint64_t own = first + t < tiles ? sums[first + t] : 0;
    shared.sums[t] = own;
    delta::scan(shared);
    if (first + t < tiles) sums[first + t] = carry + shared.sums[t] - own;
    carry += shared.sums[kDeltaThreads - 1];
    __syncthreads();
  }
}

}  // namespace headrace::codec::gpu
