// Step of the zstd decoder that writes the output, in order: a warp a stream, 32 sequences at a time. Device code
// without a CUDA header.
//
// What gets here has been checked: lengths, offsets and literals are inside the stream's output and their buffers.
#pragma once

#include "zstd_sequences_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr std::uint32_t kShortCopy = 32;  // up to so many bytes are copied by one lane

// By a warp. Neither overlaps the other.
__device__ inline void copy_by_warp(Byte* to, const Byte* from, std::uint32_t bytes, unsigned lane) {
  // Whole words where both are aligned alike, which most raw blocks of several are not: then byte by byte.
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

// A match that may repeat what it makes: `distance` bytes before `to` are there.
__device__ inline void copy_match(Byte* to, std::uint32_t distance, std::uint32_t bytes, unsigned first,
                                  unsigned step) {
  const Byte* const from = to - distance;
  if (distance >= bytes) {
    for (std::uint32_t i = first; i < bytes; i += 4 * step) {
      Byte held[4];
      for (unsigned k = 0; k < 4; ++k) held[k] = i + step * k < bytes ? from[i + step * k] : Byte{0};
      for (unsigned k = 0; k < 4; ++k) {
        if (i + step * k < bytes) to[i + step * k] = held[k];
      }
    }
  } else {
    for (std::uint32_t i = first; i < bytes; i += step) to[i] = from[i % distance];
  }
}

// Where a block's literals are: each has its own byte, or all have one.
struct Literals {
  const Byte* at;
  bool one;
};
__device__ inline Literals literals_in(const Job& job, const Block& block, const ZstdStream& stream) {
  return {block.literals == LiteralsKind::kHuffman ? job.literals_of(block) : stream.src + block.literals_at,
          block.literals == LiteralsKind::kRle};
}
__device__ inline void copy_literals(Byte* to, const Literals& literals, std::uint32_t from, std::uint32_t bytes,
                                     unsigned lane) {
  if (literals.one) {
    fill_by_warp(to, *literals.at, bytes, lane);
  } else {
    copy_by_warp(to, literals.at + from, bytes, lane);
  }
}

// 32 sequences, or as many as there are left: each lane's own, and sums over the lanes up to and with it.
struct Group {
  bool mine;
  std::uint32_t literals, match, offset, literals_upto, upto;

  __device__ Group(const std::uint64_t* slots, std::uint32_t count, unsigned lane) : mine(lane < count) {
    const std::uint64_t s = mine ? slots[lane] : 0;
    literals = mine ? literals_of(s) : 0;
    match = mine ? match_of(s) : 0;
    offset = offset_of(s);
    literals_upto = sum_upto(literals, lane);
    upto = sum_upto(literals + match, lane);
  }
  // Where the match begins in the group's output.
  __device__ std::uint32_t match_at() const { return upto - match; }
};

// To `out`, where the group's output begins. `taken`: literals before.
__device__ inline void copy_literals(const Group& group, Byte* out, const Literals& literals, std::uint32_t taken,
                                     unsigned lane) {
  const std::uint32_t from = taken + group.literals_upto - group.literals;
  Byte* const to = out + group.match_at() - group.literals;
  if (group.literals <= kShortCopy) {
    for (std::uint32_t i = 0; i < group.literals; ++i) to[i] = literals.one ? *literals.at : literals.at[from + i];
  }
  for (unsigned wanted = __ballot_sync(kAllLanes, group.literals > kShortCopy); wanted != 0; wanted &= wanted - 1) {
    const unsigned owner = static_cast<unsigned>(__ffs(wanted)) - 1;
    const std::uint32_t its_bytes = __shfl_sync(kAllLanes, group.literals, owner);
    const std::uint32_t its_place = __shfl_sync(kAllLanes, group.match_at(), owner) - its_bytes;
    copy_literals(out + its_place, literals, __shfl_sync(kAllLanes, from, owner), its_bytes, lane);
  }
}

__device__ inline void execute_group(const Group& group, Byte* out, const Literals& literals, std::uint32_t taken,
                                     unsigned lane) {
  const bool mine = group.mine;
  const std::uint32_t bytes = group.match, offset = group.offset, match_at = group.match_at();
  copy_literals(group, out, literals, taken, lane);  // nothing hangs on them but the matches
  __syncwarp();
  // Matches whose source ends before the first match that is not there yet can be copied now; that one always can.
  const std::int64_t source_end = static_cast<std::int64_t>(match_at) - offset + (offset < bytes ? offset : bytes);
  bool pending = mine;
  for (;;) {
    const unsigned waiting = __ballot_sync(kAllLanes, pending);
    if (waiting == 0) break;
    const unsigned first = static_cast<unsigned>(__ffs(waiting)) - 1;
    const std::uint32_t written = __shfl_sync(kAllLanes, match_at, first);
    const bool now = pending && (lane == first || source_end <= static_cast<std::int64_t>(written));
    if (now && bytes <= kShortCopy) copy_match(out + match_at, offset, bytes, 0, 1);
    for (unsigned wanted = __ballot_sync(kAllLanes, now && bytes > kShortCopy); wanted != 0; wanted &= wanted - 1) {
      const unsigned owner = static_cast<unsigned>(__ffs(wanted)) - 1;
      copy_match(out + __shfl_sync(kAllLanes, match_at, owner), __shfl_sync(kAllLanes, offset, owner),
                 __shfl_sync(kAllLanes, bytes, owner), lane, 32);
    }
    pending = pending && !now;
    __syncwarp();
  }
}

__device__ inline void execute_block(const Job& job, const Block& block, const ZstdStream& stream, unsigned lane) {
  Byte* out = stream.dst + block.out;
  const Byte* const content = stream.src + block.at;
  if (block.kind == BlockKind::kRaw) {
    copy_by_warp(out, content, block.decoded_bytes, lane);
    return;
  }
  if (block.kind == BlockKind::kRle) {
    fill_by_warp(out, *content, block.decoded_bytes, lane);
    return;
  }
  const Literals literals = literals_in(job, block, stream);
  const std::uint64_t* const slots = job.slots_of(block);
  std::uint32_t taken = 0;
  for (std::uint32_t i = 0; i < block.sequences; i += kGroup) {
    const Group group(slots + i, block.sequences - i < kGroup ? block.sequences - i : kGroup, lane);
    execute_group(group, out, literals, taken, lane);
    taken += __shfl_sync(kAllLanes, group.literals_upto, 31);
    out += __shfl_sync(kAllLanes, group.upto, 31);
  }
  copy_literals(out, literals, taken, block.literal_bytes - taken, lane);
}

__device__ inline void execute_body(const Job& job, std::uint32_t r) {
  Round& round = job.round[r];
  if (round.first == (&round)[1].first) return;
  const std::uint32_t count = job.stream_count();
  if (count <= job.most_by_windows) return;
  const unsigned lane = lane_id();
  for (;;) {
    std::uint32_t i = 0;
    if (lane == 0) i = atomicAdd(&round.execute_ticket, 1u);
    i = __shfl_sync(kAllLanes, i, 0);
    if (i >= count) return;
    const Part part = part_of(job, r, i);
    for (std::uint32_t x = part.from; x < part.to; ++x) {
      execute_block(job, job.blocks[x], job.streams[i], lane);
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu::zstd
