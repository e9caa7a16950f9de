// What the ways to write the output of sequences share. Device code without a CUDA header.
//
// Sequences are taken 32 at a time, a group. In order, a lane then makes a byte, not a sequence: which of the 32 a byte
// is of follows from where they begin; one vote over all of them says which of them its step of 32 bytes begins in,
// another which begin inside of it. Where bytes become cells of a window, which need not be made in order, a lane makes
// its own sequence, but for those that are long.
//
// The decoder says what there is by a type `Job`, which has
//   std::uint32_t stream_count() const    of the batch
//   Part part(std::uint32_t i) const      of stream i; empty if its chunk is bad. The same answer for all lanes
//   Byte* output(std::uint32_t i) const   where the stream's output begins
//   OutputRun piece(std::uint32_t x) const    x of the list
// Everything has been checked: pieces lie inside their stream's output, literals inside their content, and a match's
// source begins at the stream's first byte or behind it. What lies before the batch's first piece has been written.
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

// Sums over the lanes up to and with this one.
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

// The number of entries, from the first on, that `holds` is true for. It is for all up to some entry and for none
// behind. By a warp; REQUIRES: count is not 0 and holds(0).
template <class Holds>
__device__ inline std::uint32_t count_while(std::uint32_t count, unsigned lane, const Holds& holds) {
  std::uint32_t low = 0;  // holds; low + span and more do not
  for (std::uint32_t span = count; span > 1;) {
    const std::uint32_t step = (span + 31) / 32, at = low + lane * step;
    const unsigned yes = __ballot_sync(kAllLanes, lane == 0 || (lane * step < span && holds(at)));
    const std::uint32_t skipped = (31 - static_cast<unsigned>(__clz(yes))) * step;
    low += skipped;
    span = span - skipped < step ? span - skipped : step;
  }
  return low + 1;
}

// A byte of the output and where it comes from: a literal, by its number, or the byte at `source`, which may be before
// the group.
struct Origin {
  bool literal;
  std::uint32_t number;
  std::int32_t source;
};

// 32 sequences, or as many as there are left; positions are from where the group's output begins.
struct SequenceGroup {
  std::uint32_t begin, match_at, offset;
  std::int32_t literal_from;          // a literal's number less its position
  std::uint32_t upto, literals_upto;  // this sequence, of the group: bytes, and those that are literals

  // `taken`: literals before.
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

  // How many begin at byte `at` or before.
  __device__ unsigned begun(std::uint32_t at) const {
    return static_cast<unsigned>(__popc(__ballot_sync(kAllLanes, begin <= at)));
  }

  // Of byte at + lane. `upto_at` is begun(at), and becomes begun(at + 32). REQUIRES: byte `at` is of the group.
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
