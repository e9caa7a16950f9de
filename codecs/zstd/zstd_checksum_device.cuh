// Last step of the zstd decoder: verifies frame checksums, the low four bytes of XXH64 of the frame's output with seed
// 0 (RFC 8878, 3.1.1). Device code without a CUDA header.
//
// XXH64 is four serial chains of multiplications, so four lanes of a warp work on a frame. Encoders write no checksum
// by default.
#pragma once

#include "zstd_frames_device.cuh"

namespace headrace::codec::gpu::zstd {

struct Xxh64 {
  static constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                                 kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                                 kPrime5 = 0x27D4EB2F165667C5;
  __device__ static std::uint64_t rotate(std::uint64_t v, unsigned bits) { return v << bits | v >> (64 - bits); }
  __device__ static std::uint64_t round(std::uint64_t sum, std::uint64_t word) {
    return rotate(sum + word * kPrime2, 31) * kPrime1;
  }
  __device__ static std::uint64_t merge(std::uint64_t hash, std::uint64_t sum) {
    return (hash ^ round(0, sum)) * kPrime1 + kPrime4;
  }
};

__device__ inline std::uint64_t u64_at(const Byte* at) {
  if ((reinterpret_cast<std::uintptr_t>(at) & 7) == 0) return *reinterpret_cast<const std::uint64_t*>(at);
  return u32_at(at) | static_cast<std::uint64_t>(u32_at(at + 4)) << 32;
}
__device__ inline std::uint64_t u64_from_lane(std::uint64_t v, unsigned lane) {
  const std::uint32_t low = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(v), lane);
  const std::uint32_t high = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(v >> 32), lane);
  return static_cast<std::uint64_t>(high) << 32 | low;
}

// By a warp; all lanes return the same value.
__device__ inline std::uint64_t xxh64(const Byte* at, std::uint64_t bytes, unsigned lane) {
  using X = Xxh64;
  std::uint64_t sum = lane == 0 ? X::kPrime1 + X::kPrime2 : lane == 1 ? X::kPrime2 : lane == 2 ? 0 : 0 - X::kPrime1;
  const std::uint64_t stripes = bytes / 32;
  if (lane < 4) {
    std::uint64_t i = 0;
    for (; i + 8 <= stripes; i += 8) {
      std::uint64_t words[8];
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 8; ++k) words[k] = u64_at(at + (i + k) * 32 + lane * 8);
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 8; ++k) sum = X::round(sum, words[k]);
    }
    for (; i < stripes; ++i) sum = X::round(sum, u64_at(at + i * 32 + lane * 8));
  }
  __syncwarp();
  std::uint64_t hash = X::kPrime5;
  std::uint64_t sums[4];
  for (unsigned k = 0; k < 4; ++k) sums[k] = u64_from_lane(sum, k);
  if (stripes != 0) {
    hash = X::rotate(sums[0], 1) + X::rotate(sums[1], 7) + X::rotate(sums[2], 12) + X::rotate(sums[3], 18);
    for (const std::uint64_t each : sums) hash = X::merge(hash, each);
  }
  hash += bytes;
  const Byte* tail = at + stripes * 32;
  auto left = static_cast<unsigned>(bytes % 32);
  for (; left >= 8; left -= 8, tail += 8) {
    hash = X::rotate(hash ^ X::round(0, u64_at(tail)), 27) * X::kPrime1 + X::kPrime4;
  }
  if (left >= 4) {
    hash = X::rotate(hash ^ u32_at(tail) * X::kPrime1, 23) * X::kPrime2 + X::kPrime3;
    left -= 4;
    tail += 4;
  }
  for (; left > 0; --left, ++tail) hash = X::rotate(hash ^ *tail * X::kPrime5, 11) * X::kPrime1;
  hash = (hash ^ hash >> 33) * X::kPrime2;
  hash = (hash ^ hash >> 29) * X::kPrime3;
  return hash ^ hash >> 32;
}

// REQUIRES: all rounds are done.
__device__ inline void checksums_body(const Job& job) {
  if (job.totals->checksums == 0) return;
  const std::uint32_t count = job.totals->blocks;
  const unsigned lane = lane_id(), warps = blockDim.x / 32;
  for (std::uint32_t x = blockIdx.x * warps + threadIdx.x / 32; x < count; x += gridDim.x * warps) {
    const Block& block = job.blocks[x];
    if (!block.last || !block.checksum) continue;
    const ZstdStream& stream = job.streams[block.stream];
    if (!fine_for_warp(job, stream.chunk)) continue;
    const std::uint64_t hash =
        xxh64(stream.dst + block.frame_out, std::uint64_t{block.out} + block.decoded_bytes - block.frame_out, lane);
    const std::uint32_t at = block.at + block.bytes;
    if (lane == 0 && static_cast<std::uint32_t>(hash) != u32_at(stream.src + at)) {
      give_up(job, stream.chunk, at, DecodeReason::kChecksum);
    }
  }
}

}  // namespace headrace::codec::gpu::zstd
