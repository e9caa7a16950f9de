// Step of the zstd decoder that walks FSE states by a decode index, many lanes per block. Device code without a CUDA
// header.
//
// A segment lies between two index entries. A lane walks one segment from its entry. At its end, position and states
// must equal those of the next entry; the first segment begins and the last one ends where the stream says. If all
// segments of a block match, then by induction each began where a walk without an index passes. The result is therefore
// exact whatever the index holds. If one does not match, `walk` walks the block without the index, its verdict counts,
// and the chunk's index is reported as bad. Entries are checked before use: states must be within their tables,
// positions within the stream.
//
// Runs in one launch with literals, which are independent of it.
#pragma once

#include "zstd_literals_device.cuh"
#include "zstd_walk_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kSegmentWarps = kLiteralsWarps, kSegmentRingWords = 128;
static_assert(kSegmentWarps >= kTables, "a warp a table");
inline constexpr std::uint32_t kSegmentBatch = 32;
inline constexpr unsigned kSegmentUnit = 32;
inline constexpr std::int32_t kSegmentBits = kSegmentBatch * kMaxTaken + 32;
// From the word above the position down: a batch, the part of a unit beyond it, and the partial words at both ends.
static_assert(kSegmentBits / 32 + kSegmentUnit + 3 <= kSegmentRingWords);
static_assert(kIndexEvery % kSegmentBatch == 0);

// kLanes: segments per warp.
template <unsigned kLanes>
struct SegmentSpace {
  NarrowEntry::Type entries[kTableEntries];
  std::uint32_t ring[kSegmentWarps * kLanes][kSegmentRingWords + kRingRepeated];
  SequenceCounts counts[kTables];
  Byte cells[kTables][kMaxCells];
  unsigned logs[kTables];
  std::uint32_t ticket;
};
template <unsigned kLanes>
union IndexedSpace {
  LiteralsSpace literals;
  SegmentSpace<kLanes> segments;
};

// Unpacks an entry. Returns false if its states or position are out of range.
__device__ inline bool read_entry(const IndexEntry& entry, const BackwardBits& bits, const unsigned logs[kTables],
                                  WalkPoint& out) {
  const std::uint32_t states[kTables] = {
      entry.states & ((1u << IndexEntry::kOffset) - 1),
      entry.states >> IndexEntry::kOffset & ((1u << (IndexEntry::kMatch - IndexEntry::kOffset)) - 1),
      entry.states >> IndexEntry::kMatch};
  for (unsigned table = 0; table < kTables; ++table) {
    if (states[table] >= 1u << logs[table]) return false;
    out.states[table] = states[table];
  }
  if (entry.at > static_cast<std::uint32_t>(bits.top() - bits.lead)) return false;
  out.at = static_cast<std::int32_t>(entry.at) + bits.lead;
  return true;
}

// Walks this warp's segments of a Block: every kSegmentWarps-th, from `first` on. Returns whether this lane's matched.
template <unsigned kLanes>
__device__ inline bool walk_segments(const Job& job, const Block& block, const ZstdStream& stream, std::uint32_t first,
                                     SegmentSpace<kLanes>& space) {
  constexpr unsigned kTeam = 32 / kLanes;  // lanes per segment: all fill its ring, the first walks
  const unsigned lane = lane_id(), member = lane % kTeam, leader = lane - member, team = lane / kTeam;
  const std::uint32_t entries = index_entries(block.sequences), segment = first + team * kSegmentWarps;
  const IndexEntry* const index = job.entries_of(block, stream.chunk);
  const BackwardBits bits(stream.src + block.bits_at, block.bits_bytes);
  std::uint32_t* const ring = space.ring[threadIdx.x / 32 * kLanes + team];
  Walker own;
  bool good = true;
  if (segment <= entries) {
    WalkPoint point{};
    if (segment == 0) {
      point = first_point(bits, space.logs);
    } else {
      good = read_entry(index[segment - 1], bits, space.logs, point);
    }
    if (good) {
      own.begin<NarrowEntry>(point, 0);
      if (member == 0) own.left = segment == entries ? block.sequences - segment * kIndexEvery : kIndexEvery;
      own.slots = reinterpret_cast<uint2*>(job.slots_of(block)) + segment * kIndexEvery;
    }
  }
  // The ring is filled by units, downwards, until it holds the bits of a batch.
  constexpr auto kUnit = static_cast<std::int32_t>(kSegmentUnit);
  std::int32_t low = (own.at >> 5) + 2;
  std::uint32_t ahead[kLanes];  // this lane's words of the next unit below
  const auto fetch = [&] {
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kLanes; ++k) {
      ahead[k] = bits.word(low - kUnit + static_cast<std::int32_t>(member + k * kTeam));
    }
  };
  fetch();
  while (__any_sync(kAllLanes, own.left != 0)) {
    const std::int32_t at = __shfl_sync(kAllLanes, own.at, leader);
    const bool active = __shfl_sync(kAllLanes, own.left, leader) != 0;
    while (active && low > (at - kSegmentBits) >> 5) {
      low -= kUnit;
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kLanes; ++k) {
        const std::uint32_t w = (static_cast<std::uint32_t>(low) + member + k * kTeam + kRingLead) % kSegmentRingWords;
        ring[w] = ahead[k];
        if (w < kRingRepeated) ring[kSegmentRingWords + w] = ahead[k];
      }
      fetch();
    }
    __syncwarp();
    if (own.left != 0) {
      own.walk<kSegmentRingWords>(own.left < kSegmentBatch ? own.left : kSegmentBatch, space.entries, ring);
      if (own.left == 0 && segment == entries) {
        // No states are read after the last sequence.
        good = own.at + static_cast<std::int32_t>(own.last_bits) == bits.lead;
      } else if (own.at < bits.lead) {
        good = false;
        own.left = 0;
      } else if (own.left == 0) {
        const IndexEntry reached = own.index_entry<NarrowEntry>(bits.lead), next = index[segment];
        good = reached.at == next.at && reached.states == next.states;
      }
    }
    __syncwarp();
  }
  return good;
}

template <unsigned kLanes>
__device__ inline void segments_body(const Job& job, std::uint32_t r, SegmentSpace<kLanes>& space) {
  constexpr std::uint32_t kSegments = kSegmentWarps * kLanes;  // per thread block
  constexpr std::uint32_t kParts = index_entries(kMaxSequences) / kSegments + 1;
  Round& round = job.round[r];
  const unsigned lane = lane_id(), warp = threadIdx.x / 32;
  const std::uint32_t all = round.many + round.few;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&round.segment_ticket, 1u);
    __syncthreads();
    if (space.ticket >= all * kParts) return;
    // The first part of all blocks comes before the second part of any, which is mostly empty.
    Block& block = job.blocks[walk_of(job, round, space.ticket % all)];
    const std::uint32_t first = space.ticket / all * kSegments;
    if (block.index != IndexUse::kWalk || first > index_entries(block.sequences)) continue;
    const ZstdStream& stream = job.streams[block.stream];
    if (!fine_for_block(job, stream.chunk)) continue;
    DecodeReason reason = DecodeReason::kNone;
    if (warp < kTables) {
      const Block& source = job.blocks[block.table_block[warp]];
      ReadTable read;
      if (lane == 0) read = read_table(stream.src, source, warp, space.counts[warp]);
      reason = static_cast<DecodeReason>(__shfl_sync(kAllLanes, static_cast<std::uint32_t>(read.reason), 0));
      const unsigned log = __shfl_sync(kAllLanes, read.log, 0);
      const bool rle = source.modes[warp] == TableMode::kRle;
      __syncwarp();
      if (reason == DecodeReason::kNone) {
        build_table<NarrowEntry>(warp, space.counts[warp], space.cells[warp], log,
                                 rle ? stream.src[source.table_at[warp]] : kNone, space.entries + table_at(warp), 0,
                                 lane);
      }
      if (lane == 0) space.logs[warp] = log;
    }
    bool good = __syncthreads_or(reason != DecodeReason::kNone ? 1 : 0) == 0;
    if (good) good = walk_segments(job, block, stream, first + warp, space);
    if (good) continue;
    block.rewalk = true;
    atomicAdd(&round.rest, 1u);
    atomicMax(&job.index.made[stream.chunk], device::kIndexBad);
  }
}

// The first `walkers` thread blocks walk by the index, and help with literals when no segments are left; the others
// start with literals.
template <unsigned kLanes>
__device__ inline void indexed_body(const Job& job, std::uint32_t r, unsigned walkers, IndexedSpace<kLanes>& space) {
  if (blockIdx.x < walkers) segments_body<kLanes>(job, r, space.segments);
  literals_body<1>(job, r, space.literals);
}

}  // namespace headrace::codec::gpu::zstd
