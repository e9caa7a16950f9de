// Elementwise filters on the GPU: astype, cast_value, quantize and the two scales.
//
// Included by element_stage.cu, and by tests that run it on the CPU. src/codec's ElementFilter defines the operation on
// an element; both processors run the same code. A chunk with an element that cannot be decoded is left to the CPU,
// whose error message names the element.
#pragma once

#include <cstdint>

#include "codec/element_filter.h"
#include "device/gpu_outcome.h"
#include "device/gpu_stage.h"

#ifdef __CUDACC__
#define HEADRACE_ELEMENT_UNROLL _Pragma("unroll")
#else
#define HEADRACE_ELEMENT_UNROLL
#endif

namespace headrace::codec::gpu {

constexpr unsigned kElementThreads = 256;
constexpr std::uint64_t kElementTile = 16 * kElementThreads;  // elements per thread block

struct ElementJob {
  ElementFilter op;
  bool exact = true;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t chunks = 0;
  std::uint64_t tiles = 1;  // of the largest chunk
  device::gpu::Chunk* list = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
};

namespace elements {

__device__ inline void lower(std::uint64_t* outcome, std::uint64_t word) {
#if defined(__CUDA_ARCH__)
  atomicMin(reinterpret_cast<unsigned long long*>(outcome), static_cast<unsigned long long>(word));
#else
  if (word < *outcome) *outcome = word;
#endif
}

// Computes how many elements a stream has. Checks sizes by the rules of ValueCodec and returns kNone if they are right.
__device__ inline device::DecodeReason count(std::uint64_t src_bytes, unsigned from, unsigned to,
                                             std::uint64_t capacity_bytes, bool exact, std::uint64_t& elements) {
  elements = src_bytes / from;
  if (src_bytes == 0) return device::DecodeReason::kTruncated;
  if (src_bytes % from != 0) return device::DecodeReason::kWrongSize;
  const bool holds =
      exact ? capacity_bytes % to == 0 && elements == capacity_bytes / to : elements <= capacity_bytes / to;
  return holds ? device::DecodeReason::kNone : device::DecodeReason::kWrongSize;
}

}  // namespace elements

__device__ inline void elements_body(const ElementJob& job) {
  const unsigned from = width_bytes(job.op.stored.number), to = width_bytes(job.op.decoded.number);
  const std::uint64_t total = job.chunks * job.tiles;
  for (std::uint64_t item = blockIdx.x; item < total; item += gridDim.x) {
    const std::uint64_t chunk = item / job.tiles, tile = item % job.tiles;
    if (job.outcomes[chunk] != device::DecodeOutcome::kOk) continue;
    device::gpu::Chunk& stream = job.list[chunk];
    std::uint64_t count = 0;
    const device::DecodeReason reason =
        elements::count(stream.src_bytes, from, to, job.capacity_bytes, job.exact, count);
    if (reason != device::DecodeReason::kNone) {
      if (tile == 0 && threadIdx.x == 0) {
        elements::lower(&job.outcomes[chunk], device::gpu::pack_outcome(job.stage, 0, reason));
      }
      continue;
    }
    if (tile == 0 && threadIdx.x == 0) stream.dst_bytes = count * to;
    const bool load_words = numbers::is_aligned(stream.src, from), store_words = numbers::is_aligned(stream.dst, to);
    const std::uint64_t end = (tile + 1) * kElementTile < count ? (tile + 1) * kElementTile : count;
    const unsigned char* const src = stream.src;
    unsigned char* const dst = stream.dst;
    // Loads come before the stores, since the compiler must assume that a store changes what is loaded.
    constexpr unsigned kAhead = 4;
    for (std::uint64_t first = tile * kElementTile + threadIdx.x; first < end; first += kAhead * kElementThreads) {
      std::uint64_t bits[kAhead];
      HEADRACE_ELEMENT_UNROLL
      for (unsigned k = 0; k < kAhead; ++k) {
        const std::uint64_t i = first + k * kElementThreads;
        bits[k] = i < end ? numbers::load(src + i * from, job.op.stored, load_words) : 0;
      }
      HEADRACE_ELEMENT_UNROLL
      for (unsigned k = 0; k < kAhead; ++k) {
        const std::uint64_t i = first + k * kElementThreads;
        if (i >= end) break;
        std::uint64_t value = 0;
        if (apply(job.op, bits[k], value)) {
          numbers::store(dst + i * to, job.op.decoded, store_words, value);
        } else {
          elements::lower(&job.outcomes[chunk],
                          device::gpu::pack_outcome(job.stage, i * from, device::DecodeReason::kHostOnly));
        }
      }
    }
  }
}

}  // namespace headrace::codec::gpu
