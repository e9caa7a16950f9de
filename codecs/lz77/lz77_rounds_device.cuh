// Steps that assign pieces to rounds; see lz77_rounds.h. Device code without a CUDA header.
//
// The decoder provides a type `Job` with
//   Rounds rounds
//   std::uint32_t stream_count() const
//   StreamNeeds needs(std::uint32_t i) const           of stream i
//   std::uint32_t needed_before(std::uint32_t x) const units that its stream's pieces before piece x need
#pragma once

#include "lz77_layout.h"
#include "lz77_rounds.h"
#include "lz77_scan_device.cuh"

namespace headrace::codec::gpu::lz77 {

struct StreamNeeds {
  std::uint32_t first, count;         // of its pieces, in the list of all
  std::uint64_t units, units_before;  // of its pieces; of all streams before it. If units is 0, no piece needs memory
};

// Units needed by the pieces of stream i before those of share k of `shares`. Shares are equally large to within one
// piece.
template <class Job>
__device__ inline std::uint32_t needed_before_share(const Job& job, std::uint32_t i, std::uint32_t k,
                                                    std::uint32_t shares) {
  const StreamNeeds stream = job.needs(i);
  if (stream.units == 0) return 0;
  std::uint32_t low = stream.first, high = stream.first + stream.count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (std::uint64_t{job.needed_before(middle)} * shares < k * stream.units) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < stream.first + stream.count ? job.needed_before(low) : static_cast<std::uint32_t>(stream.units);
}

// One thread block; `shared` has an entry for each thread.
template <class Job>
__device__ inline void scan_rounds(const Job& job, std::uint64_t* shared) {
  const Rounds& rounds = job.rounds;
  const std::uint32_t count = job.stream_count();
  std::uint64_t all = 0;
  if (count != 0) {
    const StreamNeeds last = job.needs(count - 1);
    all = last.units_before + last.units;
  }
  // Rounds of equal size: each takes as long as its longest piece, so a short last round would take as long as the
  // others.
  const std::uint64_t used = (all + rounds.per_round - 1) / rounds.per_round;
  const bool sharing = used > 1 && used <= rounds.count && count <= kMaxSharing;
  const std::uint32_t shares = sharing ? static_cast<std::uint32_t>(used) : 1;
  if (threadIdx.x == 0) {
    *rounds.totals = {used <= 1 ? rounds.per_round : static_cast<std::uint32_t>((all + used - 1) / used), shares};
  }
  if (!sharing) return;
  for (std::uint32_t x = threadIdx.x; x < shares * count; x += blockDim.x) {
    rounds.shares[x] = needed_before_share(job, x % count, x / count, shares);
  }
  __syncthreads();
  std::uint64_t before = 0;
  for (std::uint32_t k = 0; k < shares; ++k) {
    std::uint64_t* const own = rounds.shares + std::uint64_t{k} * count;
    before += scan_by_block(
        count, shared, [&](std::uint32_t i) { return (k + 1 < shares ? own[count + i] : job.needs(i).units) - own[i]; },
        [&](std::uint32_t i, std::uint64_t upto) { own[i] = before + upto - own[i]; });
    __syncthreads();
  }
}

struct RoundPlace {
  std::uint32_t round, place;
};

// The round and place of piece x, which belongs to stream i. Fills in its entries of Rounds::parts.
template <class Job>
__device__ inline RoundPlace find_place(const Job& job, std::uint32_t i, std::uint32_t x) {
  const Rounds& rounds = job.rounds;
  const RoundTotals totals = *rounds.totals;
  const StreamNeeds stream = job.needs(i);
  const auto sum_before = [&](std::uint32_t piece) {
    const std::uint32_t own = stream.units == 0 ? 0 : job.needed_before(piece);
    if (totals.shares == 1) return stream.units_before + own;
    std::uint64_t k = own == 0 ? 0 : std::uint64_t{own} * totals.shares / stream.units;
    if (k == totals.shares) --k;  // the piece needs no memory, and neither does any after it
    return rounds.shares[k * job.stream_count() + i] + own;
  };
  const auto round_of = [&](std::uint64_t sum) {
    const std::uint64_t r = sum / totals.per_round;
    return static_cast<std::uint32_t>(r < rounds.count ? r : rounds.count - 1);
  };
  const std::uint64_t sum = sum_before(x);
  const std::uint32_t round = round_of(sum);
  std::uint32_t* const parts = rounds.parts + std::uint64_t{i} * (rounds.count + 1);
  for (std::uint32_t r = x == stream.first ? 0 : round_of(sum_before(x - 1)) + 1; r <= round; ++r) parts[r] = x;
  if (x + 1 == stream.first + stream.count) {
    for (std::uint32_t r = round + 1; r <= rounds.count; ++r) parts[r] = x + 1;
  }
  return {round, static_cast<std::uint32_t>(sum - std::uint64_t{round} * totals.per_round)};
}

// The pieces of stream i in round r. REQUIRES: the stream has pieces, each of which has a place.
__device__ inline Part part_of_round(const Rounds& rounds, std::uint32_t i, std::uint32_t r) {
  const std::uint32_t* const parts = rounds.parts + std::uint64_t{i} * (rounds.count + 1);
  return {parts[r], parts[r + 1]};
}

}  // namespace headrace::codec::gpu::lz77
