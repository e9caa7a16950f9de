// Shared by all ways of writing the output of sequences. Device code without a CUDA header.
//
// Sequences are processed 32 at a time, as a group. In order, each lane produces a byte, not a sequence: the start
// positions of the 32 sequences tell which one a byte belongs to. One vote over all of them finds the sequence in which
// a step of 32 bytes begins, another finds those that begin inside it. Where bytes become cells of a window, which may
// be made in any order, each lane makes its own sequence, except for long ones.
//
// The decoder provides a type `Job` with
//   std::uint32_t stream_count() const    of the batch
//   Part part(std::uint32_t i) const      of stream i; empty if its chunk is bad. The same answer for all lanes
//   Byte* output(std::uint32_t i) const   where the stream's output begins
//   OutputRun piece(std::uint32_t x) const    x of the list
// All inputs have been checked: pieces lie inside their stream's output, literals inside their content, and a match's
// source begins at or after the stream's first byte. Everything before the batch's first piece has been written.
#pragma once

#include "lz77_layout.h"

#if defined(__CUDACC__) || defined(__clang__)
#define HEADRACE_LZ77_UNROLL _Pragma("unroll")
#else
#define HEADRACE_LZ77_UNROLL
#endif

namespace headrace::codec::gpu::lz77 {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ inline unsigned lane_id() { return threadIdx.x % 32; }

// Inclusive prefix sum over the lanes.
__device__ inline std::uint32_t sum_upto(std::uint32_t value, unsigned lane) {
  HEADRACE_LZ77_UNROLL for (unsigned step = 1; step < 32; step *= 2) {
    const std::uint32_t below = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += below;
  }
  return value;
}

__device__ inline std::uint64_t pack_sequence(std::uint32_t literals, std::uint32_t match, std::uint32_t offset) {
  return literals | static_cast<std::uint64_t>(match - kShortestMatch) << kLengthBits |
         static_cast<std::uint64_t>(offset) << (2 * kLengthBits);
}
__device__ inline std::uint32_t literals_of(std::uint64_t s) { return static_cast<std::uint32_t>(s) & kLengthMask; }
__device__ inline std::uint32_t match_of(std::uint64_t s) {
  return (static_cast<std::uint32_t>(s >> kLengthBits) & kLengthMask) + kShortestMatch;
}
__device__ inline std::uint32_t offset_of(std::uint64_t s) {
  return static_cast<std::uint32_t>(s >> (2 * kLengthBits));
}

// The number of leading entries for which `holds` is true. It must be true up to some entry and false from there on. By
// a warp; REQUIRES: count is not 0 and holds(0).
template <class Holds>
__device__ inline std::uint32_t count_while(std::uint32_t count, unsigned lane, const Holds& holds) {
  std::uint32_t low = 0;  // holds(low) is true; holds(low + span) and beyond are false
  for (std::uint32_t span = count; span > 1;) {
    const std::uint32_t step = (span + 31) / 32, at = low + lane * step;
    const unsigned yes = __ballot_sync(kAllLanes, lane == 0 || (lane * step < span && holds(at)));
    const std::uint32_t skipped = (31 - static_cast<unsigned>(__clz(yes))) * step;
    low += skipped;
    span = span - skipped < step ? span - skipped : step;
  }
  return low + 1;
}

// Where a byte of the output comes from: a literal, by its number, or the byte at `source`, which may be before the
// group.
struct Origin {
  bool literal;
  std::uint32_t number;
  std::int32_t source;
};

// Up to 32 sequences; positions are relative to where the group's output begins.
struct SequenceGroup {
  std::uint32_t begin, match_at, offset;
  std::int32_t literal_from;          // a literal's number minus its position
  std::uint32_t upto, literals_upto;  // prefix sums up to and including this sequence: bytes, and literals

  // `taken`: literals of the piece before this group.
  __device__ SequenceGroup(std::uint64_t sequence, bool mine, std::uint32_t taken, unsigned lane) {
    const std::uint32_t literals = mine ? literals_of(sequence) : 0, match = mine ? match_of(sequence) : 0;
    literals_upto = sum_upto(literals, lane);
    upto = sum_upto(literals + match, lane);
    begin = mine ? upto - match - literals : ~std::uint32_t{0};
    match_at = upto - match;
    offset = offset_of(sequence);
    literal_from = static_cast<std::int32_t>(taken + literals_upto - literals) -
                   static_cast<std::int32_t>(upto - match - literals);
  }

  // How many sequences begin at or before byte `at`.
  __device__ unsigned begun(std::uint32_t at) const {
    return static_cast<unsigned>(__popc(__ballot_sync(kAllLanes, begin <= at)));
  }

  // The origin of byte at + lane. `upto_at` is begun(at) and becomes begun(at + 32). REQUIRES: the group contains byte
  // `at`.
  __device__ Origin origin(std::uint32_t at, unsigned& upto_at, unsigned lane) const {
    const std::uint32_t ahead = begin - at - 1;
    const unsigned starts = __reduce_or_sync(kAllLanes, ahead < 32 ? 1u << ahead : 0);
    const unsigned k = upto_at - 1 + static_cast<unsigned>(__popc(starts & ((1u << lane) - 1)));
    upto_at += static_cast<unsigned>(__popc(starts));
    const std::uint32_t its_match = __shfl_sync(kAllLanes, match_at, k), back = __shfl_sync(kAllLanes, offset, k);
    const std::int32_t its_literals = __shfl_sync(kAllLanes, literal_from, k);
    const std::uint32_t place = at + lane;
    return {place < its_match, place + static_cast<std::uint32_t>(its_literals),
            static_cast<std::int32_t>(place) - static_cast<std::int32_t>(back)};
  }
};

}  // namespace headrace::codec::gpu::lz77
