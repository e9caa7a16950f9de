// Step of the zstd decoder that walks the FSE states of sequences, the one serial part. Device code without a CUDA
// header.
//
// A lane walks a block's states and notes of each sequence its three codes and where its extra bits end; what the bits
// are is for `extract` to read, in parallel. There is no check in the loop: states cannot leave a table that was built
// here, and the bits lie in a ring that is indexed modulo its size. A batch of 32 sequences takes 2,848 bits at most;
// so many and more are in the ring when it begins. Whether the bits were used up is looked at between batches.
//
// A warp walks 1, 4 or 8 blocks side by side: one where there are few (a walk takes less time then), more where the
// blocks are what there is enough of. docs/design/gpu_decode.md tells more.
#pragma once

#include "zstd_tables_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kRingWords = 256, kRingUnit = 32;
inline constexpr std::uint32_t kBatch = 32;
// 16 and 16 extra bits of lengths and 31 of offsets, and 9, 9 and 8 of states; and a word to read the last ones from.
inline constexpr std::int32_t kBatchBits = 32 * (63 + 26) + 32;
// Where a table begins among a block's entries.
inline constexpr unsigned kTableEntries = 1280;
__host__ __device__ constexpr unsigned table_at(unsigned table) {
  return table == kLiteralLengths ? 0 : table == kOffsets ? 512 : 768;
}
// An entry's second word: what the next state's bits are added to, in bytes from the block's first entry; from bit 16
// on, how many bits those are.
inline constexpr unsigned kStateBits = 16;
inline constexpr std::uint32_t kBaseMask = (1u << kStateBits) - 1;

template <unsigned kBlocks>
struct WalkSpace {
  uint2 entries[kBlocks][kTableEntries];
  std::uint32_t ring[kBlocks][kRingWords + 1];  // the last word is the first one again
  TableSpace build;
};

// One of the tables that hold for a block, by a warp. `source` is the block that describes it.
__device__ inline DecodeReason build_table(const Byte* src, const Block& source, unsigned table, TableSpace& space,
                                           uint2* entries, unsigned& log, unsigned lane) {
  const auto entry_of = [table](std::uint32_t symbol, unsigned bits, std::uint32_t base) {
    const unsigned extra = table == kLiteralLengths ? literal_extra(symbol)
                           : table == kOffsets      ? symbol
                                                    : match_extra(symbol);
    const unsigned at = table == kLiteralLengths ? WalkWord::kLiteral
                        : table == kOffsets      ? WalkWord::kOffset
                                                 : WalkWord::kMatch;
    return make_uint2((bits + extra) | symbol << at,
                      (table_at(table) + base) * static_cast<std::uint32_t>(sizeof(uint2)) | bits << kStateBits);
  };
  const TableMode mode = source.modes[table];
  const std::uint32_t at = source.table_at[table];
  if (mode == TableMode::kRle) {
    log = 0;
    if (lane == 0) entries[0] = entry_of(src[at], 0, 0);
    __syncwarp();
    return DecodeReason::kNone;
  }
  DecodeReason reason = DecodeReason::kNone;
  log = 0;
  if (lane == 0) {
    CellCounts counts(space);
    if (mode == TableMode::kPredefined) {
      const Predefined fixed = predefined(table);
      for (unsigned symbol = 0; symbol < fixed.symbols; ++symbol) counts(symbol, predefined_count(table, symbol));
      log = fixed.log;
    } else {
      const std::uint32_t end = source.at + source.bytes;
      const Description description = read_description(src + at, end - at, last_symbol(table), most_log(table), counts);
      reason = description.reason;  // as in `parse`: none
      log = description.log;
    }
    if (reason == DecodeReason::kNone && !counts.finish(log)) reason = DecodeReason::kHeader;
  }
  reason = static_cast<DecodeReason>(__shfl_sync(kAllLanes, static_cast<std::uint32_t>(reason), 0));
  log = __shfl_sync(kAllLanes, log, 0);
  __syncwarp();
  if (reason != DecodeReason::kNone) return reason;
  deal_cells(space, log, lane);
  number_cells(space, log, lane, [&](std::uint32_t cell, std::uint32_t symbol, unsigned bits, std::uint32_t base) {
    entries[cell] = entry_of(symbol, bits, base);
  });
  return DecodeReason::kNone;
}

// Where a walk begins or goes on: what of the stream is left and the states' entries, in bytes from a block's first.
struct WalkPoint {
  std::int32_t at;
  std::uint32_t states[kTables];
};
__device__ inline std::uint32_t entry_at(unsigned table, std::uint32_t state) {
  return (table_at(table) + state) * static_cast<std::uint32_t>(sizeof(uint2));
}
__device__ inline WalkPoint first_point(const BackwardBits& bits, const unsigned logs[kTables]) {
  WalkPoint out{bits.top(), {}};
  for (unsigned table = 0; table < kTables; ++table) {
    out.at -= static_cast<std::int32_t>(logs[table]);
    out.states[table] = entry_at(table, bits.bits(out.at) & ((1u << logs[table]) - 1));
  }
  return out;
}

// A lane's walk.
struct Walker {
  BackwardBits bits;
  std::int32_t at = 0;   // bits from here on are used
  std::int32_t low = 0;  // words from here on are or were in the ring
  std::uint32_t left = 0;
  std::uint32_t literal_at = 0, offset_at = 0, match_at = 0;  // entries of the states, in bytes from the first
  std::uint32_t last_bits = 0;                                // of states, that the last step took
  uint2* slots = nullptr;
  std::uint32_t chunk = 0, position = 0;
  // Collecting: where the next index entry goes, and how many sequences are left then; kNone: there is none.
  IndexEntry* entry = nullptr;
  std::uint32_t entry_left = kNone;

  __device__ void begin(const WalkPoint& point) {
    at = point.at;
    literal_at = point.states[kLiteralLengths];
    offset_at = point.states[kOffsets];
    match_at = point.states[kMatchLengths];
  }
  __device__ IndexEntry index_entry() const {
    const auto state = [](unsigned table, std::uint32_t entry_bytes) {
      return entry_bytes / static_cast<std::uint32_t>(sizeof(uint2)) - table_at(table);
    };
    return {static_cast<std::uint32_t>(at - bits.lead), state(kLiteralLengths, literal_at) |
                                                            state(kOffsets, offset_at) << IndexEntry::kOffset |
                                                            state(kMatchLengths, match_at) << IndexEntry::kMatch};
  }
  __device__ void collect() {
    *entry++ = index_entry();
    entry_left = entry_left > kIndexEvery ? entry_left - kIndexEvery : kNone;
  }

  // `count` sequences, at least one. REQUIRES: as many bits as they can take are in the ring.
  template <unsigned kWords>
  __device__ void walk(std::uint32_t count, const uint2* entries, const std::uint32_t* ring) {
    const auto* const bytes = reinterpret_cast<const Byte*>(entries);
    uint2 l{}, o{}, m{};
    for (std::uint32_t i = 0; i < count; ++i) {
      l = *reinterpret_cast<const uint2*>(bytes + literal_at);
      o = *reinterpret_cast<const uint2*>(bytes + offset_at);
      m = *reinterpret_cast<const uint2*>(bytes + match_at);
      const std::uint32_t word = l.x + o.x + m.x;
      slots[i] = make_uint2(word, static_cast<std::uint32_t>(at));
      at -= static_cast<std::int32_t>(word & WalkWord::kBitsMask);
      const std::uint32_t w = static_cast<std::uint32_t>(at >> 5) % kWords;
      const std::uint32_t v = __funnelshift_r(ring[w], ring[w + 1], static_cast<std::uint32_t>(at) & 31);
      const std::uint32_t o_bits = o.y >> kStateBits, m_bits = m.y >> kStateBits, l_bits = l.y >> kStateBits;
      constexpr std::uint32_t kEntry = sizeof(uint2);
      offset_at = (o.y & kBaseMask) + (v & ((1u << o_bits) - 1)) * kEntry;
      match_at = (m.y & kBaseMask) + (v >> o_bits & ((1u << m_bits) - 1)) * kEntry;
      literal_at = (l.y & kBaseMask) + (v >> (o_bits + m_bits) & ((1u << l_bits) - 1)) * kEntry;
    }
    last_bits = (l.y >> kStateBits) + (o.y >> kStateBits) + (m.y >> kStateBits);
    slots += count;
    left -= count;
  }
};

// The blocks of a round that have sequences; a warp takes kBlocks at a time.
template <unsigned kBlocks>
__device__ inline void walk_body(const Job& job, std::uint32_t r, WalkSpace<kBlocks>& space) {
  Round& round = job.round[r];
  const unsigned lane = lane_id();
  const std::uint32_t all = round.many + round.few;
  if (job.index.any_given && round.rest == 0) return;
  for (;;) {
    std::uint32_t ticket = 0;
    if (lane == 0) ticket = atomicAdd(&round.walk_ticket, kBlocks);
    ticket = __shfl_sync(kAllLanes, ticket, 0);
    if (ticket >= all) return;
    Walker own;
    std::uint32_t ahead[kBlocks];  // of each block, this lane's word of the unit below the ring
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kBlocks; ++k) ahead[k] = 0;
    for (unsigned k = 0; k < kBlocks; ++k) {
      const std::uint32_t x = ticket + k < all ? walk_of(job, round, ticket + k) : kNone;
      if (x == kNone) continue;
      const Block& block = job.blocks[x];
      const ZstdStream& stream = job.streams[block.stream];
      if (!fine_for_warp(job, stream.chunk)) continue;
      if (block.index == IndexUse::kWalk && !block.rewalk) continue;
      DecodeReason reason = DecodeReason::kNone;
      unsigned logs[kTables] = {0, 0, 0};
      for (unsigned table = 0; table < kTables && reason == DecodeReason::kNone; ++table) {
        __syncwarp();
        reason = build_table(stream.src, job.blocks[block.table_block[table]], table, space.build,
                             space.entries[k] + table_at(table), logs[table], lane);
      }
      if (reason != DecodeReason::kNone) {
        if (lane == 0) give_up(job, stream.chunk, block.at, reason);
        continue;
      }
      if (lane == k) {
        own.bits = BackwardBits(stream.src + block.bits_at, block.bits_bytes);
        own.chunk = stream.chunk;
        own.position = block.bits_at;
        own.low = (own.bits.top() >> 5) + 2;
        own.left = block.sequences;
        own.slots = reinterpret_cast<uint2*>(job.slots_of(block));
        own.begin(first_point(own.bits, logs));
        own.entry_left = kNone;
        if (block.index == IndexUse::kCollect && block.sequences > kIndexEvery) {
          own.entry = job.entries_of(block, stream.chunk);
          own.entry_left = block.sequences - kIndexEvery;
        }
      }
    }
    bool begun = false;
    while (__any_sync(kAllLanes, own.left != 0)) {
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < kBlocks; ++k) {
        if (__shfl_sync(kAllLanes, own.left, k) == 0) continue;
        // Filled a unit at a time, from above, until the batch's bits are there.
        std::int32_t low = __shfl_sync(kAllLanes, own.low, k);
        const std::int32_t want = (__shfl_sync(kAllLanes, own.at, k) - kBatchBits) >> 5;
        BackwardBits bits;
        const auto base = reinterpret_cast<std::uintptr_t>(own.bits.base);
        const auto base_low = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(base), k);
        const auto base_high = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(std::uint64_t{base} >> 32), k);
        const auto bytes = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(own.bits.end - own.bits.base), k);
        bits.base = reinterpret_cast<const Byte*>(
            static_cast<std::uintptr_t>(static_cast<std::uint64_t>(base_high) << 32 | base_low));
        bits.end = bits.base + bytes;
        const auto unit = static_cast<std::int32_t>(kRingUnit), self = static_cast<std::int32_t>(lane);
        if (!begun) ahead[k] = bits.word(low - unit + self);
        while (low > want) {
          low -= unit;
          const std::uint32_t w = static_cast<std::uint32_t>(low + self) % kRingWords;
          space.ring[k][w] = ahead[k];
          if (w == 0) space.ring[k][kRingWords] = ahead[k];
          ahead[k] = bits.word(low - unit + self);
        }
        if (lane == k) own.low = low;
      }
      begun = true;
      __syncwarp();
      if (lane < kBlocks && own.left != 0) {
        own.walk<kRingWords>(own.left < kBatch ? own.left : kBatch, space.entries[lane], space.ring[lane]);
        // The states are not read on after the last sequence.
        if (own.left == 0) own.at += static_cast<std::int32_t>(own.last_bits);
        const std::int32_t unused = own.at - own.bits.lead;
        if (unused < 0) {
          // Older versions of libzstd do not look.
          give_up(job, own.chunk, own.position, DecodeReason::kHostOnly);
          own.left = 0;
        } else if (own.left == 0 && unused != 0) {
          // They also read states after the last sequence, so they see only what is left then.
          give_up(job, own.chunk, own.position, unused > 26 ? DecodeReason::kTrailing : DecodeReason::kHostOnly);
        } else if (own.left == own.entry_left) {
          own.collect();
        }
      }
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu::zstd
