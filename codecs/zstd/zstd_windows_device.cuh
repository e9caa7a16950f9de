// The zstd decoder's other way to write the output, where streams are few: all blocks' literals at once, then a thread
// block a stream for its matches, one window of the output after the other. Device code without a CUDA header.
//
// In order, 32 sequences of a stream are in hand at a time. A window has a thousand and more: each of its bytes becomes
// a cell in shared memory that has the byte, or a link to the cell before it that it is a copy of, and links are
// followed until there are only bytes. Matches from before the window read what is there by then. As in order, all that
// gets here has been checked.
#pragma once

#include "zstd_execute_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kWindowThreads = 512;
inline constexpr std::uint32_t kWindowBytes = 16384, kDone = 0x8000;

template <std::uint32_t kBytes>
struct WindowSpace {
  static_assert(kBytes <= kDone && kBytes % 4 == 0);
  alignas(16) std::uint16_t cell[kBytes];  // kDone + byte, or a link: a smaller number than its own
  std::uint32_t ticket;
  std::uint32_t first_group[2];  // that reaches into this window, and into the next
};

// ---- spread ----

__device__ inline void spread_block(const Job& job, const Block& block, const ZstdStream& stream, unsigned warp,
                                    unsigned warps, unsigned lane) {
  Byte* const out = stream.dst + block.out;
  const bool compressed = block.kind == BlockKind::kCompressed;
  const Literals literals =
      compressed ? literals_in(job, block, stream) : Literals{stream.src + block.at, block.kind == BlockKind::kRle};
  if (!compressed || block.sequences == 0) {
    const std::uint32_t share = (block.decoded_bytes + warps - 1) / warps, from = warp * share;
    if (from >= block.decoded_bytes) return;
    const std::uint32_t left = block.decoded_bytes - from;
    copy_literals(out + from, literals, from, left < share ? left : share, lane);
    return;
  }
  const std::uint64_t* const slots = job.slots_of(block);
  const Checkpoint* const checkpoints = job.checkpoints_of(block);
  const std::uint32_t groups = (block.sequences + kGroup - 1) / kGroup;
  for (std::uint32_t g = warp; g < groups; g += warps) {
    const std::uint32_t i = g * kGroup;
    const Group group(slots + i, block.sequences - i < kGroup ? block.sequences - i : kGroup, lane);
    const Checkpoint before = checkpoints[g];
    Byte* const to = out + before.literals + before.matches;
    copy_literals(group, to, literals, before.literals, lane);
    if (g + 1 != groups) continue;
    const std::uint32_t taken = before.literals + __shfl_sync(kAllLanes, group.literals_upto, 31);
    copy_literals(to + __shfl_sync(kAllLanes, group.upto, 31), literals, taken, block.literal_bytes - taken, lane);
  }
}

__device__ inline void spread_body(const Job& job, std::uint32_t r) {
  if (job.stream_count() > job.most_by_windows) return;
  const std::uint32_t end = job.round[r + 1].first;
  for (std::uint32_t x = job.round[r].first + blockIdx.x; x < end; x += gridDim.x) {
    const Block& block = job.blocks[x];
    const ZstdStream& stream = job.streams[block.stream];
    if (!fine_for_warp(job, stream.chunk)) continue;
    spread_block(job, block, stream, threadIdx.x / 32, blockDim.x / 32, lane_id());
  }
}

// ---- windows ----

// Cells of a match of `bytes` that begins at `at`, which may be before the window, for those in [from, to). `out` is
// where the window begins.
template <std::uint32_t kBytes>
__device__ inline void link_match(WindowSpace<kBytes>& space, const Byte* out, std::int32_t at, std::uint32_t offset,
                                  std::uint32_t from, std::uint32_t to, std::uint32_t first, std::uint32_t step) {
  const std::int32_t source = at - static_cast<std::int32_t>(offset);
  for (std::uint32_t i = from + first; i < to; i += 4 * step) {
    std::int32_t origin[4];
    std::uint32_t value[4];
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4; ++k) {  // so that loads overlap
      const std::uint32_t place = i + k * step,
                          done = static_cast<std::uint32_t>(static_cast<std::int32_t>(place) - at);
      origin[k] = source + static_cast<std::int32_t>(done < offset ? done : done % offset);
      value[k] = place < to && origin[k] < 0 ? kDone | out[origin[k]] : static_cast<std::uint32_t>(origin[k]);
    }
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4; ++k) {
      if (i + k * step < to) space.cell[i + k * step] = static_cast<std::uint16_t>(value[k]);
    }
  }
}

// The window [begin, begin + bytes) of a block's output, by all threads. Literals are there.
template <std::uint32_t kBytes>
__device__ inline void copy_window(const Job& job, const Block& block, Byte* out, std::uint32_t begin,
                                   std::uint32_t bytes, WindowSpace<kBytes>& space) {
  const std::uint32_t t = threadIdx.x, threads = blockDim.x, lane = lane_id(), warp = t / 32, warps = threads / 32;
  const std::uint32_t groups = (block.sequences + kGroup - 1) / kGroup, which = begin / kBytes % 2;
  const std::uint64_t* const slots = job.slots_of(block);
  const Checkpoint* const checkpoints = job.checkpoints_of(block);
  if (t == 0) space.first_group[which ^ 1] = groups;
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % 4 == 0;
  for (std::uint32_t i = t * 4; i < bytes; i += threads * 4) {
    if (aligned && i + 4 <= bytes) {
      const std::uint32_t four = *reinterpret_cast<const std::uint32_t*>(out + i);
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4; ++k) {
        space.cell[i + k] = static_cast<std::uint16_t>(kDone | (four >> (8 * k) & 255));
      }
    } else {
      for (unsigned k = 0; k < 4 && i + k < bytes; ++k)
        space.cell[i + k] = static_cast<std::uint16_t>(kDone | out[i + k]);
    }
  }
  __syncthreads();
  for (std::uint32_t g = space.first_group[which] + warp; g < groups; g += warps) {
    const Checkpoint before = checkpoints[g];
    const std::uint32_t start = before.literals + before.matches;
    if (start >= begin + bytes) break;
    const std::uint32_t i = g * kGroup;
    const Group group(slots + i, block.sequences - i < kGroup ? block.sequences - i : kGroup, lane);
    const std::uint32_t end = start + __shfl_sync(kAllLanes, group.upto, 31);
    if (end >= begin + bytes && lane == 0) space.first_group[which ^ 1] = g;
    const std::int32_t at = static_cast<std::int32_t>(start + group.match_at()) - static_cast<std::int32_t>(begin);
    const std::int32_t match_end = at + static_cast<std::int32_t>(group.match);
    const std::uint32_t from = at < 0 ? 0 : static_cast<std::uint32_t>(at);
    std::uint32_t to = match_end < 0 ? 0 : static_cast<std::uint32_t>(match_end);
    to = to < bytes ? to : bytes;
    const bool any = group.mine && from < to, by_warp = any && to - from > kShortCopy;
    if (any && !by_warp) link_match(space, out, at, group.offset, from, to, 0, 1);
    for (unsigned wanted = __ballot_sync(kAllLanes, by_warp); wanted != 0; wanted &= wanted - 1) {
      const unsigned owner = static_cast<unsigned>(__ffs(wanted)) - 1;
      link_match(space, out, __shfl_sync(kAllLanes, at, owner), __shfl_sync(kAllLanes, group.offset, owner),
                 __shfl_sync(kAllLanes, from, owner), __shfl_sync(kAllLanes, to, owner), lane, 32);
    }
  }
  __syncthreads();
  // A part of the window after the other, so that most links lead to a cell that has its byte.
  for (std::uint32_t part = 0; part < bytes; part += threads * 4) {
    const std::uint32_t i = part + t * 4;
    std::uint32_t value[4];
    bool linked = false;
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4; ++k) {
      value[k] = i + k < bytes ? space.cell[i + k] : kDone;
      linked |= value[k] < kDone;
    }
    const bool links = linked;
    while (linked) {
      linked = false;
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4; ++k) {
        if (value[k] < kDone) value[k] = space.cell[value[k]];
        linked |= value[k] < kDone;
      }
    }
    const bool whole = aligned && i + 4 <= bytes;
    if (whole) {
      *reinterpret_cast<std::uint32_t*>(out + i) =
          (value[0] & 255) | (value[1] & 255) << 8 | (value[2] & 255) << 16 | value[3] << 24;
    }
    __syncthreads();
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4; ++k) {
      if (i + k >= bytes) continue;
      if (links) space.cell[i + k] = static_cast<std::uint16_t>(value[k]);
      if (!whole) out[i + k] = static_cast<Byte>(value[k]);
    }
    __syncthreads();
  }
}

template <std::uint32_t kBytes>
__device__ inline void windows_body(const Job& job, std::uint32_t r, WindowSpace<kBytes>& space) {
  Round& round = job.round[r];
  const std::uint32_t count = job.stream_count();
  if (count > job.most_by_windows || round.first == (&round)[1].first) return;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&round.execute_ticket, 1u);
    __syncthreads();
    const std::uint32_t i = space.ticket;
    if (i >= count) return;
    const Part part = part_of(job, r, i);
    for (std::uint32_t x = part.from; x < part.to; ++x) {
      const Block& block = job.blocks[x];
      if (block.kind != BlockKind::kCompressed || block.sequences == 0) continue;
      if (threadIdx.x == 0) space.first_group[0] = 0;
      for (std::uint32_t begin = 0; begin < block.decoded_bytes; begin += kBytes) {
        const std::uint32_t left = block.decoded_bytes - begin;
        copy_window(job, block, job.streams[i].dst + block.out + begin, begin, left < kBytes ? left : kBytes, space);
      }
    }
  }
}

}  // namespace headrace::codec::gpu::zstd
