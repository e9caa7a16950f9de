// Output of sequences where streams are many: a warp a stream, 32 bytes at a time. Device code without a CUDA header.
#pragma once

#include "lz77_device.cuh"

namespace headrace::codec::gpu::lz77 {

// By a warp. Neither overlaps the other.
__device__ inline void copy_by_warp(Byte* to, const Byte* from, std::uint32_t bytes, unsigned lane) {
  // Whole words where both are aligned alike, which most raw pieces of several are not: then byte by byte.
  if (((reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from)) & 15) == 0 && bytes >= 64) {
    const auto head = static_cast<std::uint32_t>(-reinterpret_cast<std::uintptr_t>(to) & 15);
    if (lane < head) to[lane] = from[lane];
    const std::uint32_t words = (bytes - head) / 16;
    auto* const to_words = reinterpret_cast<uint4*>(to + head);
    const auto* const from_words = reinterpret_cast<const uint4*>(from + head);
    for (std::uint32_t i = lane; i < words; i += 32) to_words[i] = from_words[i];
    for (std::uint32_t i = head + words * 16 + lane; i < bytes; i += 32) to[i] = from[i];
    return;
  }
  for (std::uint32_t i = lane; i < bytes; i += 128) {
    Byte held[4];
    for (unsigned k = 0; k < 4; ++k) held[k] = i + 32 * k < bytes ? from[i + 32 * k] : Byte{0};
    for (unsigned k = 0; k < 4; ++k) {
      if (i + 32 * k < bytes) to[i + 32 * k] = held[k];
    }
  }
}
__device__ inline void fill_by_warp(Byte* to, Byte value, std::uint32_t bytes, unsigned lane) {
  for (std::uint32_t i = lane; i < bytes; i += 32) to[i] = value;
}
__device__ inline void copy_content(Byte* to, const Piece& piece, std::uint32_t from, std::uint32_t bytes,
                                    unsigned lane) {
  if (piece.one) {
    fill_by_warp(to, *piece.content, bytes, lane);
  } else {
    copy_by_warp(to, piece.content + from, bytes, lane);
  }
}

// `bytes` of a group's output. What is before it is there.
__device__ inline void write_group(const Group& group, const Piece& piece, Byte* out, std::uint32_t bytes,
                                   unsigned lane) {
  for (std::uint32_t at = 0; at < bytes; at += 32) {
    const Origin origin = group.origin<false>(at, lane);
    const bool mine = at + lane < bytes;
    // Bytes of these 32 that are copies of others of them: links from lane to lane, followed until they lead nowhere.
    const bool linked = mine && !origin.literal && origin.source >= static_cast<std::int32_t>(at);
    std::uint32_t value = 0;
    if (mine && !linked) {
      value = origin.literal ? piece.content[piece.one ? 0 : origin.number] : out[origin.source];
    }
    if (__any_sync(kAllLanes, linked)) {
      unsigned to = linked ? static_cast<unsigned>(origin.source) - at : lane;
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < 5; ++k) to = __shfl_sync(kAllLanes, to, to);
      value = __shfl_sync(kAllLanes, value, to);
    }
    if (mine) out[at + lane] = static_cast<Byte>(value);
    __syncwarp();
  }
}

__device__ inline void write_piece(const Piece& piece, Byte* out, unsigned lane) {
  if (piece.count == 0) {
    copy_content(out, piece, 0, piece.bytes, lane);
    return;
  }
  const std::uint32_t groups = groups_of(piece.count);
  std::uint64_t ahead = lane < piece.count ? piece.sequences[lane] : 0;
  Checkpoint before{0, 0};
  for (std::uint32_t g = 0; g < groups; ++g) {
    const std::uint32_t i = g * kGroup + lane, next = i + kGroup;
    const Group group(ahead, i < piece.count, before.literals, lane);
    if (next < piece.count) ahead = piece.sequences[next];
    const Checkpoint after = piece.checkpoints[g + 1];
    const std::uint32_t start = before.literals + before.matches;
    write_group(group, piece, out + start, after.literals + after.matches - start, lane);
    before = after;
  }
  const std::uint32_t end = before.literals + before.matches;
  copy_content(out + end, piece, before.literals, piece.bytes - end, lane);
}

// By warps that each take a stream; does nothing where there are so few that they are written otherwise.
template <class Job>
__device__ inline void inorder_body(const Job& job, const Choice& choice, Progress& progress) {
  const std::uint32_t count = job.stream_count();
  if (count <= choice.most_by_windows) return;
  const unsigned lane = lane_id();
  for (;;) {
    std::uint32_t i = 0;
    if (lane == 0) i = atomicAdd(&progress.ticket, 1u);
    i = __shfl_sync(kAllLanes, i, 0);
    if (i >= count) return;
    const Part part = job.part(i);
    for (std::uint32_t x = part.from; x < part.to; ++x) {
      const Piece piece = job.piece(x);
      write_piece(piece, job.output(i) + piece.out, lane);
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu::lz77
