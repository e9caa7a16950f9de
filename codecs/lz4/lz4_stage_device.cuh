// Turns numcodecs' lz4 chunks into a list of raw blocks: device code without a CUDA header.
#pragma once

#include "lz4_inorder_device.cuh"

namespace headrace::codec::gpu {

inline constexpr std::uint32_t kLz4HeaderBytes = 4;

// Checks a chunk's size word by the rules of lz4_codec.cc. Returns what is wrong with it, if anything.
__device__ inline device::DecodeReason read_lz4_header(const device::gpu::Chunk& chunk, bool exact,
                                                       std::uint32_t& declared) {
  using device::DecodeReason;
  constexpr std::uint64_t kMaxBytes = 0x7FFFFFFF;
  declared = 0;
  if (chunk.src_bytes <= kLz4HeaderBytes) return DecodeReason::kTruncated;
  for (unsigned i = 0; i < kLz4HeaderBytes; ++i) declared |= static_cast<std::uint32_t>(chunk.src[i]) << (8 * i);
  if (exact ? declared != chunk.dst_bytes : declared > chunk.dst_bytes) return DecodeReason::kWrongSize;
  if (chunk.src_bytes - kLz4HeaderBytes > kMaxBytes || declared > kMaxBytes) return DecodeReason::kHeader;
  return DecodeReason::kNone;
}

// One thread per chunk. Chunks that are or become bad get a stream with nothing to do. A zeroed ticket follows the
// streams' count.
__device__ inline void list_lz4_streams_body(device::gpu::Chunk* chunks, std::uint32_t count, bool exact,
                                             std::uint64_t* outcomes, unsigned stage, Lz4Stream* streams,
                                             std::uint32_t* streams_count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) {
    streams_count[0] = count;
    streams_count[1] = 0;
  }
  if (i >= count) return;
  Lz4Stream stream{nullptr, nullptr, 0, 0, i, Lz4Kind::kNone};
  if (outcomes[i] == device::DecodeOutcome::kOk) {
    device::gpu::Chunk& chunk = chunks[i];
    std::uint32_t declared;
    const device::DecodeReason reason = read_lz4_header(chunk, exact, declared);
    if (reason != device::DecodeReason::kNone) {
      lz4_give_up(outcomes, i, stage, 0, reason);
    } else {
      stream.src = chunk.src + kLz4HeaderBytes;
      stream.dst = chunk.dst;
      stream.src_bytes = static_cast<std::uint32_t>(chunk.src_bytes - kLz4HeaderBytes);
      stream.dst_bytes = declared;
      stream.kind = Lz4Kind::kBlock;
      chunk.dst_bytes = declared;
    }
  }
  streams[i] = stream;
}

}  // namespace headrace::codec::gpu
