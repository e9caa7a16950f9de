// packbits on the GPU: each thread expands a byte to eight bools. Included by packbits_stage.cu, and by tests that run
// it on the CPU.
#pragma once

#include <cstdint>

#include "device/gpu_outcome.h"
#include "device/gpu_stage.h"

namespace headrace::codec::gpu {

constexpr unsigned kPackbitsThreads = 256;
constexpr std::uint64_t kPackbitsTile = 8 * kPackbitsThreads;  // stored bytes per thread block

struct PackbitsJob {
  bool exact = true;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t chunks = 0;
  std::uint64_t tiles = 1;  // of the largest chunk
  device::gpu::Chunk* list = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
};

__device__ inline device::DecodeReason packbits_count(const PackbitsJob& job, const device::gpu::Chunk& chunk,
                                                      std::uint64_t& count) {
  count = 0;
  if (chunk.src_bytes == 0) return device::DecodeReason::kTruncated;
  const unsigned padding = chunk.src[0];
  const std::uint64_t bytes = chunk.src_bytes - 1;
  if (padding > 7 || (padding > 0 && bytes == 0)) return device::DecodeReason::kHeader;
  if (bytes > job.capacity_bytes / 8 + 1) return device::DecodeReason::kWrongSize;
  count = bytes * 8 - padding;
  const bool holds = job.exact ? count == job.capacity_bytes : count <= job.capacity_bytes;
  return holds ? device::DecodeReason::kNone : device::DecodeReason::kWrongSize;
}

__device__ inline void packbits_body(const PackbitsJob& job) {
  const std::uint64_t total = job.chunks * job.tiles;
  for (std::uint64_t item = blockIdx.x; item < total; item += gridDim.x) {
    const std::uint64_t chunk = item / job.tiles, tile = item % job.tiles;
    if (job.outcomes[chunk] != device::DecodeOutcome::kOk) continue;
    device::gpu::Chunk& stream = job.list[chunk];
    std::uint64_t count = 0;
    const device::DecodeReason reason = packbits_count(job, stream, count);
    if (reason != device::DecodeReason::kNone) {
      if (tile == 0 && threadIdx.x == 0) job.outcomes[chunk] = device::gpu::pack_outcome(job.stage, 0, reason);
      continue;
    }
    if (tile == 0 && threadIdx.x == 0) stream.dst_bytes = count;
    const bool words = reinterpret_cast<std::uintptr_t>(stream.dst) % 8 == 0;
    for (std::uint64_t i = threadIdx.x; i < kPackbitsTile; i += kPackbitsThreads) {
      const std::uint64_t at = tile * kPackbitsTile + i;
      if (at * 8 >= count) break;
      const std::uint64_t byte = stream.src[1 + at];
      std::uint64_t bits = 0;
      for (unsigned bit = 0; bit < 8; ++bit) bits |= (byte >> (7 - bit) & 1) << (8 * bit);
      const std::uint64_t left = count - at * 8;
      if (words && left >= 8) {
        reinterpret_cast<std::uint64_t*>(stream.dst)[at] = bits;
      } else {
        for (unsigned k = 0; k < 8 && k < left; ++k)
          stream.dst[at * 8 + k] = static_cast<unsigned char>(bits >> (8 * k));
      }
    }
  }
}

}  // namespace headrace::codec::gpu
