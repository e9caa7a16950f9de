// Step of the zstd decoder that walks the FSE states of sequences, the one serial part. Device code without a CUDA
// header.
//
// A lane walks a block's states and notes of each sequence its three codes and where its extra bits end; what the bits
// are is for `extract` to read, in parallel. There is no check in the loop: states cannot leave a table that was built
// here, and the bits lie in a ring that is indexed modulo its size. A batch of sequences takes so many bits at most; so
// many and more are in the ring when it begins. Whether the bits were used up is looked at between batches.
//
// A warp walks 1, 4 or 8 blocks side by side: one where there are few (a walk takes less time then), more where the
// blocks are what there is enough of. The lanes that do not walk fill the ring of the one that does.
// docs/design/gpu_decode.md tells more.
#pragma once

#include "zstd_walk_tables_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kRingWords = 256;
// 16 and 16 extra bits of lengths and 31 of offsets, and 9, 9 and 8 of states.
inline constexpr std::int32_t kMostTaken = 63 + 26;

template <unsigned kBlocks>
struct WalkForm {
  using Entry = NarrowEntry;
  static constexpr std::uint32_t kBatch = 32;
  static constexpr unsigned kUnitWords = 32;  // that the ring is filled by
};
template <>
struct WalkForm<1> {
  using Entry = WideEntry;
  static constexpr std::uint32_t kBatch = 64;
  static constexpr unsigned kUnitWords = 64;
};

template <unsigned kBlocks>
struct WalkSpace {
  typename WalkForm<kBlocks>::Entry::Type entries[kBlocks][kTableEntries];
  union {
    struct {  // while tables are built
      SequenceCounts counts[kBlocks * kTables];
      Byte cells[kMostCells];
    };
    std::uint32_t ring[kBlocks][kRingWords + 2];  // the last two words are the first ones again
  };
};

// A lane's walk.
struct Walker {
  std::int32_t at = 0;  // bits from here on are used
  std::uint32_t left = 0;
  std::uint32_t literal_at = 0, offset_at = 0, match_at = 0;  // entries of the states, in bytes from the first
  std::uint32_t last_bits = 0;                                // of states, that the last step took
  uint2* slots = nullptr;

  // `count` sequences, at least one. REQUIRES: as many bits as they can take are in the ring.
  __device__ void walk(std::uint32_t count, const uint4* entries, const std::uint32_t* ring) {
    constexpr std::uint32_t kMask = kRingWords - 1;
    const auto* const bytes = reinterpret_cast<const Byte*>(entries);
    uint4 l{}, o{}, m{};
    for (std::uint32_t i = 0; i < count; ++i) {
      l = *reinterpret_cast<const uint4*>(bytes + literal_at);
      o = *reinterpret_cast<const uint4*>(bytes + offset_at);
      m = *reinterpret_cast<const uint4*>(bytes + match_at);
      // The 64 bits below, while the entries are on their way.
      const std::uint32_t w = static_cast<std::uint32_t>((at >> 5) - 2) & kMask, r = static_cast<std::uint32_t>(at);
      const std::uint32_t a = ring[w], b = ring[w + 1], c = ring[w + 2];
      const std::uint64_t window =
          static_cast<std::uint64_t>(__funnelshift_r(b, c, r & 31)) << 32 | __funnelshift_r(a, b, r & 31);
      const std::uint32_t word = l.x + o.x + m.x;
      slots[i] = make_uint2(word, static_cast<std::uint32_t>(at));
      const std::uint32_t takes = word >> WideEntry::kTakes & WideEntry::kTakesMask;
      at -= static_cast<std::int32_t>(takes);
      auto v = static_cast<std::uint32_t>(window >> (word & 63));
      if (takes > WideEntry::kWindow - WideEntry::kScale) {
        const std::uint32_t low = static_cast<std::uint32_t>(at >> 5) & kMask;
        v = __funnelshift_r(ring[low], ring[low + 1], static_cast<std::uint32_t>(at) & 31) << WideEntry::kScale;
      }
      offset_at = o.y + (v & o.w);
      match_at = m.y + (v >> o.z & m.w);
      literal_at = l.y + (v >> (o.z + m.z) & l.w);
    }
    last_bits = l.z + o.z + m.z;
    slots += count;
    left -= count;
  }
  __device__ void walk(std::uint32_t count, const std::uint32_t* entries, const std::uint32_t* ring) {
    constexpr std::uint32_t kMask = kRingWords - 1, kCodes = ~std::uint32_t{0} << NarrowEntry::kCode;
    const auto* const bytes = reinterpret_cast<const Byte*>(entries);
    const auto bits_of = [](std::uint32_t entry) { return entry >> NarrowEntry::kBits & NarrowEntry::kBitsMask; };
    const auto next = [](unsigned table, std::uint32_t entry, std::uint32_t more) {
      return (table_at(table) + (entry >> NarrowEntry::kBase & NarrowEntry::kBaseMask) + more) << NarrowEntry::kScale;
    };
    std::uint32_t l = 0, o = 0, m = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      l = *reinterpret_cast<const std::uint32_t*>(bytes + literal_at);
      o = *reinterpret_cast<const std::uint32_t*>(bytes + offset_at);
      m = *reinterpret_cast<const std::uint32_t*>(bytes + match_at);
      slots[i] = make_uint2(((l | m) & kCodes) | o >> (NarrowEntry::kCode - WalkWord::kOffset),
                            static_cast<std::uint32_t>(at));
      at -= static_cast<std::int32_t>((l + o + m) & NarrowEntry::kTakesMask);
      const std::uint32_t w = static_cast<std::uint32_t>(at >> 5) & kMask;
      const std::uint32_t v = __funnelshift_r(ring[w], ring[w + 1], static_cast<std::uint32_t>(at) & 31);
      const std::uint32_t o_bits = bits_of(o), m_bits = bits_of(m);
      offset_at = next(kOffsets, o, v & ((1u << o_bits) - 1));
      match_at = next(kMatchLengths, m, v >> o_bits & ((1u << m_bits) - 1));
      literal_at = next(kLiteralLengths, l, v >> (o_bits + m_bits) & ((1u << bits_of(l)) - 1));
    }
    last_bits = bits_of(l) + bits_of(o) + bits_of(m);
    slots += count;
    left -= count;
  }
};

// The blocks of a round that have sequences; a warp takes kBlocks at a time, and each of them has a share of its lanes,
// the first of which walks.
template <unsigned kBlocks>
__device__ inline void walk_body(const Job& job, std::uint32_t r, WalkSpace<kBlocks>& space) {
  using Form = WalkForm<kBlocks>;
  using Entry = typename Form::Entry;
  constexpr unsigned kLanes = 32 / kBlocks, kEach = Form::kUnitWords / kLanes;
  constexpr std::int32_t kUnit = Form::kUnitWords, kBatchBits = Form::kBatch * kMostTaken + 32;
  static_assert(kBatchBits / 32 + kUnit + 4 <= static_cast<std::int32_t>(kRingWords));
  Round& round = job.round[r];
  const unsigned lane = lane_id(), which = lane / kLanes, self = lane % kLanes;
  const std::uint32_t all = round.many + round.few;
  for (;;) {
    std::uint32_t ticket = 0;
    if (lane == 0) ticket = atomicAdd(&round.walk_ticket, kBlocks);
    ticket = __shfl_sync(kAllLanes, ticket, 0);
    if (ticket >= all) return;
    std::uint32_t x = ticket + which < all ? walk_of(job, round, ticket + which) : kNone;
    if (x != kNone && !fine(job, job.streams[job.blocks[x].stream].chunk)) x = kNone;
    x = __shfl_sync(kAllLanes, x, which * kLanes);  // other warps may have made it bad meanwhile
    __syncwarp();
    // A lane a table reads what is said of it; then the warp builds one after the other.
    ReadTable read;
    std::uint32_t rle = kNone;
    const unsigned reads = lane / kTables, table = lane % kTables;
    const std::uint32_t read_x = __shfl_sync(kAllLanes, x, reads < kBlocks ? reads * kLanes : 0);
    if (reads < kBlocks && read_x != kNone) {
      const Block& source = job.blocks[job.blocks[read_x].table_block[table]];
      const ZstdStream& stream = job.streams[source.stream];
      read = read_table(stream.src, source, table, space.counts[lane]);
      if (source.modes[table] == TableMode::kRle) rle = stream.src[source.table_at[table]];
      if (read.reason != DecodeReason::kNone) give_up(job, stream.chunk, job.blocks[read_x].at, read.reason);
    }
    const unsigned bad = __ballot_sync(kAllLanes, read.reason != DecodeReason::kNone);
    if ((bad >> (which * kTables) & ((1u << kTables) - 1)) != 0) x = kNone;
    __syncwarp();
    for (unsigned k = 0; k < kBlocks * kTables; ++k) {
      if (__shfl_sync(kAllLanes, x, k / kTables * kLanes) == kNone) continue;
      build_table<Entry>(k % kTables, space.counts[k], space.cells, __shfl_sync(kAllLanes, read.log, k),
                         __shfl_sync(kAllLanes, rle, k), space.entries[k / kTables] + table_at(k % kTables), lane);
      __syncwarp();
    }
    unsigned logs[kTables];
    for (unsigned k = 0; k < kTables; ++k) logs[k] = __shfl_sync(kAllLanes, read.log, which * kTables + k);

    Walker own;  // of a share's first lane
    BackwardBits bits;
    std::int32_t low = 0;  // words from here on are or were in the ring
    std::uint32_t ahead[kEach];  // of the unit below it
    HEADRACE_ZSTD_UNROLL for (unsigned e = 0; e < kEach; ++e) ahead[e] = 0;
    std::uint32_t chunk = 0, position = 0;
    if (x != kNone) {
      const Block& block = job.blocks[x];
      const ZstdStream& stream = job.streams[block.stream];
      chunk = stream.chunk;
      position = block.bits_at;
      bits = BackwardBits(stream.src + block.bits_at, block.bits_bytes);
      own.at = bits.top();
      low = (own.at >> 5) + 2;
      HEADRACE_ZSTD_UNROLL for (unsigned e = 0; e < kEach; ++e) {
        ahead[e] = bits.word(low - kUnit + static_cast<std::int32_t>(self * kEach + e));
      }
      if (self == 0) own.left = block.sequences;
      own.slots = reinterpret_cast<uint2*>(job.slots_of(block));
      std::uint32_t states[kTables];
      for (unsigned k = 0; k < kTables; ++k) {
        own.at -= static_cast<std::int32_t>(logs[k]);
        const std::uint32_t state = bits.bits(own.at) & ((1u << logs[k]) - 1);
        states[k] = (table_at(k) + state) << Entry::kScale;
      }
      own.literal_at = states[kLiteralLengths];
      own.offset_at = states[kOffsets];
      own.match_at = states[kMatchLengths];
    }
    const auto* const words = reinterpret_cast<const std::uint32_t*>(bits.base);
    while (__any_sync(kAllLanes, own.left != 0)) {
      const std::int32_t at = __shfl_sync(kAllLanes, own.at, which * kLanes);
      const bool goes_on = __shfl_sync(kAllLanes, own.left, which * kLanes) != 0;
      // Filled a unit at a time, from above, until the batch's bits are there. Behind the first unit, words are whole.
      for (const std::int32_t want = (at - kBatchBits) >> 5; goes_on && low > want;) {
        low -= kUnit;
        HEADRACE_ZSTD_UNROLL for (unsigned e = 0; e < kEach; ++e) {
          const std::uint32_t w = static_cast<std::uint32_t>(low + static_cast<std::int32_t>(self * kEach + e)) % kRingWords;
          space.ring[which][w] = ahead[e];
          if (w < 2) space.ring[which][kRingWords + w] = ahead[e];
        }
        HEADRACE_ZSTD_UNROLL for (unsigned e = 0; e < kEach; ++e) {
          const std::int32_t i = low - kUnit + static_cast<std::int32_t>(self * kEach + e);
          ahead[e] = 0;
          if (i >= 0) ahead[e] = words[i];
        }
      }
      __syncwarp();
      if (own.left != 0) {
        own.walk(own.left < Form::kBatch ? own.left : Form::kBatch, space.entries[which], space.ring[which]);
        // The states are not read on after the last sequence.
        if (own.left == 0) own.at += static_cast<std::int32_t>(own.last_bits);
        const std::int32_t unused = own.at - bits.lead;
        if (unused < 0) {
          // Older versions of libzstd do not look.
          give_up(job, chunk, position, DecodeReason::kHostOnly);
          own.left = 0;
        } else if (own.left == 0 && unused != 0) {
          // They also read states after the last sequence, so they see only what is left then.
          give_up(job, chunk, position, unused > 26 ? DecodeReason::kTrailing : DecodeReason::kHostOnly);
        }
      }
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu::zstd
