// Writes the output of sequences for many streams: one warp per stream, in order. Device code without a CUDA header.
#pragma once

#include "lz77_copies_device.cuh"

namespace headrace::codec::gpu::lz77 {

__device__ inline void copy_content(Byte* to, const OutputRun& piece, std::uint32_t from, std::uint32_t bytes,
                                    unsigned lane) {
  if (piece.one) {
    fill_by_warp(to, piece.content, 1, bytes, lane);
  } else {
    copy_by_warp(to, piece.content + from, bytes, lane);
  }
}

// A group's literals, four bytes per lane, if they fit.
struct FewLiterals {
  static constexpr std::uint32_t kMax = 128;
  std::uint32_t first = 0, count = ~std::uint32_t{0}, bytes = 0;

  __device__ FewLiterals(const OutputRun& piece, std::uint32_t from, std::uint32_t to, unsigned lane)
      : first(from), count(to - from) {
    if (count > kMax) return;
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < 4; ++k) {
      if (4 * lane + k < count) {
        bytes |= static_cast<std::uint32_t>(piece.content[piece.one ? 0 : first + 4 * lane + k]) << (8 * k);
      }
    }
  }
  __device__ bool have() const { return count <= kMax; }
  // Called by all lanes.
  __device__ std::uint32_t get(std::uint32_t number) const {
    const std::uint32_t i = number - first;
    return __shfl_sync(kAllLanes, bytes, i / 4 % 32) >> (i % 4 * 8) & 255;
  }
};

// Writes bytes [from, bytes) of a group's output, 64 at a time. The bytes before them have been written.
__device__ inline void write_steps(const SequenceGroup& group, const OutputRun& piece, const FewLiterals& few,
                                   Byte* out, std::uint32_t from, std::uint32_t bytes, unsigned lane) {
  constexpr unsigned kSteps = 2;
  unsigned begun = group.begun(from);
  for (std::uint32_t at = from; at < bytes; at += 32 * kSteps) {
    std::uint32_t value[kSteps];
    unsigned to[kSteps];  // the lane and step that have the byte: a link, followed until its target is no link
    bool linked = false;
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
      value[k] = 0;
      to[k] = lane + 32 * k;
      if (at + 32 * k >= bytes) continue;
      const Origin origin = group.origin(at + 32 * k, begun, lane);
      const bool mine = at + 32 * k + lane < bytes;
      if (few.have()) value[k] = few.get(origin.number);
      if (mine && !origin.literal) {
        if (origin.source >= static_cast<std::int32_t>(at)) {
          to[k] = static_cast<unsigned>(origin.source) - at;
          linked = true;
        } else {
          value[k] = out[origin.source];
        }
      } else if (mine && !few.have()) {
        value[k] = piece.content[piece.one ? 0 : origin.number];
      }
    }
    if (__any_sync(kAllLanes, linked)) {
      // First within each step, then from the second step to the first.
      HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
        HEADRACE_LZ77_UNROLL for (unsigned turn = 0; turn < 5; ++turn) {
          const unsigned next = __shfl_sync(kAllLanes, to[k], to[k] % 32);
          if (to[k] / 32 == k) to[k] = next;
        }
        const std::uint32_t here = __shfl_sync(kAllLanes, value[k], to[k] % 32);
        const std::uint32_t before = __shfl_sync(kAllLanes, value[0], to[k] % 32);
        value[k] = to[k] / 32 == k ? here : before;
      }
    }
    HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kSteps; ++k) {
      if (at + 32 * k + lane < bytes) out[at + 32 * k + lane] = static_cast<Byte>(value[k]);
    }
    __syncwarp();
  }
}

// Runs of literals and matches of at least this length are not written 64 bytes at a time.
inline constexpr std::uint32_t kLongRun = 256;

// Writes a run of literals from number `from` on, or a match if `offset` is not 0.
__device__ inline void write_run(Byte* to, const Byte* content, bool one, std::uint32_t from, std::uint32_t offset,
                                 std::uint32_t bytes) {
  const unsigned lane = lane_id();
  __syncwarp();
  if (offset != 0) {
    match_by_warp(to, offset, bytes, lane);
  } else if (one) {
    fill_by_warp(to, content, 1, bytes, lane);
  } else {
    copy_by_warp(to, content + from, bytes, lane);
  }
  __syncwarp();
}

// Writes `bytes` bytes of a group's output. The bytes before them have been written.
__device__ inline void write_group(const SequenceGroup& group, const OutputRun& piece, const FewLiterals& few,
                                   Byte* out, std::uint32_t bytes, unsigned lane) {
  const bool mine = group.begin != ~std::uint32_t{0};
  unsigned literals = __ballot_sync(kAllLanes, mine && group.match_at - group.begin >= kLongRun);
  unsigned matches = __ballot_sync(kAllLanes, mine && group.upto - group.match_at >= kLongRun);
  for (std::uint32_t at = 0;;) {
    // A sequence's literals come before its match.
    const unsigned k = static_cast<unsigned>(__ffs(static_cast<int>(literals | matches))) - 1;
    const bool any = (literals | matches) != 0, is_match = any && (literals >> k & 1) == 0;
    const std::uint32_t match_at = __shfl_sync(kAllLanes, group.match_at, k);
    const std::uint32_t begin = is_match ? match_at : __shfl_sync(kAllLanes, group.begin, k);
    write_steps(group, piece, few, out, at, any ? begin : bytes, lane);
    if (!any) return;
    at = is_match ? __shfl_sync(kAllLanes, group.upto, k) : match_at;
    const std::uint32_t number = begin + static_cast<std::uint32_t>(__shfl_sync(kAllLanes, group.literal_from, k));
    const std::uint32_t offset = __shfl_sync(kAllLanes, group.offset, k);
    write_run(out + begin, piece.content, piece.one, number, is_match ? offset : 0, at - begin);
    if (is_match) {
      matches &= matches - 1;
    } else {
      literals &= literals - 1;
    }
  }
}

__device__ inline Checkpoint shuffled(const Checkpoint& checkpoint, unsigned lane) {
  return {__shfl_sync(kAllLanes, checkpoint.literals, lane), __shfl_sync(kAllLanes, checkpoint.matches, lane)};
}

__device__ inline void write_piece(const OutputRun& piece, Byte* out, unsigned lane) {
  if (piece.count == 0) {
    copy_content(out, piece, 0, piece.bytes, lane);
    return;
  }
  const std::uint32_t groups = groups_of(piece.count);
  std::uint64_t sequence = lane < piece.count ? piece.sequences[lane] : 0;
  Checkpoint before{0, 0};
  for (std::uint32_t base = 0; base < groups; base += 32) {
    const std::uint32_t own = base + 1 + lane < groups ? base + 1 + lane : groups;
    const Checkpoint ends = piece.checkpoints[own];  // of 32 groups
    Checkpoint after = shuffled(ends, 0);
    FewLiterals few(piece, before.literals, after.literals, lane);
    for (std::uint32_t k = 0; k < 32 && base + k < groups; ++k) {
      const std::uint32_t i = (base + k) * kGroup + lane;
      const SequenceGroup group(sequence, i < piece.count, before.literals, lane);
      if (i + kGroup < piece.count) sequence = piece.sequences[i + kGroup];
      const Checkpoint next = shuffled(ends, k < 31 ? k + 1 : 31);
      const FewLiterals few_next(piece, after.literals, next.literals, lane);
      const std::uint32_t start = before.literals + before.matches;
      write_group(group, piece, few, out + start, after.literals + after.matches - start, lane);
      before = after;
      after = next;
      few = few_next;
    }
  }
  const std::uint32_t end = before.literals + before.matches;
  copy_content(out + end, piece, before.literals, piece.bytes - end, lane);
}

// For more than `above` streams: each warp takes one.
template <class Job>
__device__ inline void inorder_body(const Job& job, std::uint32_t above, Progress& progress) {
  const std::uint32_t count = job.stream_count();
  if (count <= above) return;
  const unsigned lane = lane_id();
  for (;;) {
    std::uint32_t i = 0;
    if (lane == 0) i = atomicAdd(&progress.ticket, 1u);
    i = __shfl_sync(kAllLanes, i, 0);
    if (i >= count) return;
    const Part part = job.part(i);
    for (std::uint32_t x = part.from; x < part.to; ++x) {
      const OutputRun piece = job.piece(x);
      write_piece(piece, job.output(i) + piece.out, lane);
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu::lz77
