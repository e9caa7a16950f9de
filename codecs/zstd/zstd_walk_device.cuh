// Step of the zstd decoder that walks the FSE states of sequences, the only serial part. Device code without a CUDA
// header.
//
// A lane walks a block's states. For each sequence it stores the three codes and the position where the extra bits end;
// `extract` reads the extra bits in parallel. The loop has no checks: states cannot leave a table that was built here,
// and the bits come from a ring that is indexed modulo its size. The bits of one batch of sequences are bounded, and
// the ring holds at least that many when a batch begins. Running out of bits is checked between batches.
//
// A warp walks 1, 4 or 8 blocks side by side: one if there are few blocks (the walk is faster then), more if there are
// plenty. The lanes that do not walk fill the ring of the one that does. See docs/design/gpu_decode.md.
#pragma once

#include "zstd_walk_tables_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kRingWords = 256;
// A ring of words has word i at (i + kRingLead) % kRingWords. Its first words are repeated after the last, so the three
// words that hold the 64 bits below a position are contiguous, and begin at the index of the position's word.
inline constexpr unsigned kRingLead = 2, kRingRepeated = 2;
// 16, 16 and 31 extra bits (two lengths and the offset), and 9, 9 and 8 state bits.
inline constexpr std::int32_t kMaxTaken = 63 + 26;

template <unsigned kBlocks>
struct WalkForm {
  using Entry = NarrowEntry;
  using Unit = std::uint32_t;  // unit of the entries' offsets
  using Cell = std::uint32_t;  // one word
  static constexpr std::uint32_t kBatch = 32;
  static constexpr unsigned kUnitWords = 32;  // words that one refill of the ring adds
  static constexpr unsigned kRingCells = kRingWords + kRingRepeated;
};
template <>
struct WalkForm<1> {
  using Entry = WideEntry;
  using Unit = Byte;
  using Cell = uint4;  // x, y, z: three consecutive words of the stream, lowest first
  static constexpr std::uint32_t kBatch = 64;
  static constexpr unsigned kUnitWords = 64;
  static constexpr unsigned kRingCells = kRingWords;
};

template <unsigned kBlocks>
struct WalkSpace {
  using Form = WalkForm<kBlocks>;
  typename Form::Entry::Type entries[kBlocks][kTableEntries];
  union {
    struct {  // used while tables are built
      SequenceCounts counts[kBlocks * kTables];
      Byte cells[kMaxCells];
    };
    typename Form::Cell ring[kBlocks][Form::kRingCells];
  };
};
// The entries of each warp's space must be aligned so that OR can form an offset.
static_assert(sizeof(WalkSpace<1>) % (512 * sizeof(uint4)) == 0);
// Narrow entries are numbered within a warp's space.
static_assert(8 * kTableEntries <= 1u << (32 - NarrowEntry::kNext));

// Where a walk starts or resumes: bits from `at` on are used up; state numbers.
struct WalkPoint {
  std::int32_t at;
  std::uint32_t states[kTables];
};
__device__ inline WalkPoint first_point(const BackwardBits& bits, const unsigned logs[kTables]) {
  WalkPoint out{bits.top(), {}};
  for (unsigned table = 0; table < kTables; ++table) {
    out.at -= static_cast<std::int32_t>(logs[table]);
    out.states[table] = bits.bits(out.at) & ((1u << logs[table]) - 1);
  }
  return out;
}

// The walk of one lane.
struct Walker {
  std::int32_t at = 0;  // bits from here on are used up
  std::uint32_t left = 0;
  std::uint32_t literal_at = 0, offset_at = 0,
                match_at = 0;   // offsets of the current states' entries, from the first of all
  std::uint32_t last_bits = 0;  // state bits that the last step consumed
  uint2* slots = nullptr;
  std::uint32_t origin = 0;  // of the block's entries
  // When collecting: where the next index entry goes, and the value of `left` at which it is due; kNone: no more.
  IndexEntry* entry = nullptr;
  std::uint32_t entry_left = kNone;

  template <class Entry>
  __device__ void begin(const WalkPoint& point, std::uint32_t entries_origin) {
    const auto place = [&](unsigned table) {
      return entries_origin + ((table_at(table) + point.states[table]) << Entry::kScale);
    };
    at = point.at;
    origin = entries_origin;
    literal_at = place(kLiteralLengths);
    offset_at = place(kOffsets);
    match_at = place(kMatchLengths);
  }
  // `lead`: the first bit of the stream.
  template <class Entry>
  __device__ IndexEntry index_entry(std::int32_t lead) const {
    const auto state = [&](unsigned table, std::uint32_t place) {
      return ((place - origin) >> Entry::kScale) - table_at(table);
    };
    return {static_cast<std::uint32_t>(at - lead), state(kLiteralLengths, literal_at) |
                                                       state(kOffsets, offset_at) << IndexEntry::kOffset |
                                                       state(kMatchLengths, match_at) << IndexEntry::kMatch};
  }
  template <class Entry>
  __device__ void collect(std::int32_t lead) {
    *entry++ = index_entry<Entry>(lead);
    entry_left = entry_left > kIndexEvery ? entry_left - kIndexEvery : kNone;
  }

  // Walks `count` sequences, at least one, by wide entries. Each step depends on the one before, so the latency of a
  // step is what counts. REQUIRES: the ring holds the maximum number of bits that they can consume.
  __device__ void walk(std::uint32_t count, const Byte* entries, const uint4* ring) {
    // A window leaves this many bits for a step, because state bits come multiplied by 16.
    constexpr std::int32_t kWindow = 64 - WideEntry::kScale;
    const Walker before = *this;
    const auto* const cells = reinterpret_cast<const Byte*>(ring);
    std::int32_t shifts = 0;
    uint4 l{}, o{}, m{}, cell = cell_at(cells);
    const auto step = [&](uint2& slot) {
      l = *reinterpret_cast<const uint4*>(entries + literal_at);
      o = *reinterpret_cast<const uint4*>(entries + offset_at);
      m = *reinterpret_cast<const uint4*>(entries + match_at);
      const auto low = static_cast<std::uint32_t>(at);  // the shift uses 5 bits
      const std::uint64_t window =
          static_cast<std::uint64_t>(__funnelshift_r(cell.y, cell.z, low)) << 32 | __funnelshift_r(cell.x, cell.y, low);
      const std::uint32_t word = l.x + o.x + m.x;
      slot = make_uint2(word, low);
      const std::int32_t shift = __dp4a(static_cast<int>(word), 0xFF, kWindow);  // the lowest byte, negated
      at = __dp4a(static_cast<int>(word), 0xFF, at);
      cell = cell_at(cells);
      shifts |= shift;
      const auto v = static_cast<std::uint32_t>(window >> (static_cast<unsigned>(shift) & 63));
      offset_at = o.y | (v & o.w);
      match_at = m.y | (v >> o.z & m.w);
      literal_at = l.y | (v >> (o.z + m.z) & l.w);
    };
    std::uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
      HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4; ++k) step(slots[i + k]);
    }
    for (; i < count; ++i) step(slots[i]);
    last_bits = l.z + o.z + m.z;
    if (shifts < 0) {  // a step consumed more than a window holds
      *this = before;
      walk_slowly(count, entries, ring);
    }
    slots += count;
    left -= count;
  }
  __device__ uint4 cell_at(const Byte* cells) const {
    static_assert(sizeof(uint4) == 16);
    return *reinterpret_cast<const uint4*>(cells + (static_cast<std::uint32_t>(at >> 1) & 16 * (kRingWords - 1)));
  }
  __device__ void walk_slowly(std::uint32_t count, const Byte* entries, const uint4* ring) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const uint4 l = *reinterpret_cast<const uint4*>(entries + literal_at);
      const uint4 o = *reinterpret_cast<const uint4*>(entries + offset_at);
      const uint4 m = *reinterpret_cast<const uint4*>(entries + match_at);
      const std::uint32_t word = l.x + o.x + m.x;
      slots[i] = make_uint2(word, static_cast<std::uint32_t>(at));
      at -= static_cast<std::int32_t>(word & 255);
      const std::uint32_t low = static_cast<std::uint32_t>(at >> 5) % kRingWords;
      const std::uint32_t v =
          __funnelshift_r(ring[low].z, ring[(low + 1) % kRingWords].z, static_cast<std::uint32_t>(at))
          << WideEntry::kScale;
      offset_at = o.y | (v & o.w);
      match_at = m.y | (v >> o.z & m.w);
      literal_at = l.y | (v >> (o.z + m.z) & l.w);
      last_bits = l.z + o.z + m.z;
    }
  }
  // Walks by narrow entries. A multiprocessor has room for only a few warps that do this, so a step must have few
  // instructions.
  template <unsigned kWords = kRingWords>
  __device__ void walk(std::uint32_t count, const std::uint32_t* entries, const std::uint32_t* ring) {
    const Walker before = *this;
    std::uint32_t l = 0, o = 0, m = 0;
    std::int32_t most = 0;
    HEADRACE_ZSTD_UNROLL_BY(4) for (std::uint32_t i = 0; i < count; ++i) {
      l = entries[literal_at];
      o = entries[offset_at];
      m = entries[match_at];
      slots[i] = make_uint2(codes(l, o, m), static_cast<std::uint32_t>(at));
      // The 64 bits below `at`: extra bits are the topmost; those of the states follow.
      const std::uint32_t* const words = ring + (static_cast<std::uint32_t>(at >> 5) & (kWords - 1));
      const std::uint32_t low = words[0], middle = words[1], high = words[2];
      const auto by = static_cast<std::uint32_t>(at);
      const std::uint64_t window =
          static_cast<std::uint64_t>(__funnelshift_r(middle, high, by)) << 32 | __funnelshift_r(low, middle, by);
      const std::uint32_t sum = l + o + m, extra = sum & NarrowEntry::kExtraMask;
      const auto takes = static_cast<std::int32_t>(extra + (sum >> NarrowEntry::kBits & NarrowEntry::kBitsMask));
      most = takes > most ? takes : most;
      at -= takes;
      advance(l, o, m, static_cast<std::uint32_t>(window << extra >> 32));
    }
    last_bits = (l + o + m) >> NarrowEntry::kBits & NarrowEntry::kBitsMask;
    if (most > 64) {  // a step consumed more than a window holds
      *this = before;
      walk_slowly<kWords>(count, entries, ring);
    }
    slots += count;
    left -= count;
  }

 private:
  // Packs the codes; the bits between them are undefined.
  __device__ static std::uint32_t codes(std::uint32_t l, std::uint32_t o, std::uint32_t m) {
    constexpr std::uint32_t kLiteral = (1u << WalkWord::kOffset) - 1, kBoth = (1u << WalkWord::kMatch) - 1;
    const std::uint32_t both = (l & kLiteral) | (o << (WalkWord::kOffset - NarrowEntry::kCode) & ~kLiteral);
    return (both & kBoth) | (m << (WalkWord::kMatch - NarrowEntry::kCode) & ~kBoth);
  }
  // Advances to the next states, whose bits are the topmost of `v`.
  __device__ void advance(std::uint32_t l, std::uint32_t o, std::uint32_t m, std::uint32_t v) {
    const auto next = [&v](std::uint32_t cell) {
      const std::uint32_t bits = cell >> NarrowEntry::kBits;  // the shift uses 5 bits
      const std::uint32_t out = (cell >> NarrowEntry::kNext) + __funnelshift_l(v, 0, bits);
      v = __funnelshift_l(0, v, bits);
      return out;
    };
    literal_at = next(l);
    match_at = next(m);
    offset_at = next(o);
  }
  template <unsigned kWords>
  __device__ void walk_slowly(std::uint32_t count, const std::uint32_t* entries, const std::uint32_t* ring) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t l = entries[literal_at], o = entries[offset_at], m = entries[match_at], sum = l + o + m;
      slots[i] = make_uint2(codes(l, o, m), static_cast<std::uint32_t>(at));
      at -= static_cast<std::int32_t>(sum & NarrowEntry::kExtraMask);
      const std::uint32_t* const words = ring + (static_cast<std::uint32_t>(at >> 5) & (kWords - 1));
      advance(l, o, m, __funnelshift_r(words[1], words[2], static_cast<std::uint32_t>(at)));
      last_bits = sum >> NarrowEntry::kBits & NarrowEntry::kBitsMask;
      at -= static_cast<std::int32_t>(last_bits);
    }
  }
};

// Keeps a block's ring filled, with the next words prefetched, by the lanes that share the ring.
template <unsigned kBlocks>
struct RingFiller {
  using Form = WalkForm<kBlocks>;
  static constexpr unsigned kLanes = 32 / kBlocks, kEach = Form::kUnitWords / kLanes;
  static constexpr std::int32_t kUnit = Form::kUnitWords;

  const std::uint32_t* words = nullptr;
  std::int32_t low = 0;             // words from here on have been written to the ring
  std::uint32_t ahead[kEach] = {};  // prefetched words of the next unit below
  std::uint32_t above[2] = {};      // words `low` and the one above it

  __device__ void begin(const BackwardBits& bits, std::int32_t top, unsigned self) {
    words = reinterpret_cast<const std::uint32_t*>(bits.base);
    low = (top >> 5) + 2;
    HEADRACE_ZSTD_UNROLL for (unsigned e = 0; e < kEach; ++e) ahead[e] = bits.word(number(self, e));
  }
  // Fills words in whole units, downwards, to `want`. After the first unit they are complete.
  __device__ void fill(std::int32_t want, unsigned self, typename Form::Cell* ring) {
    while (low > want) {
      if constexpr (kBlocks == 1) {
        static_assert(kEach == 2);
        std::uint32_t next[2];
        for (unsigned e = 0; e < 2; ++e) {
          next[e] = __shfl_down_sync(kAllLanes, ahead[e], 1);
          if (self == 31) next[e] = above[e];
          above[e] = __shfl_sync(kAllLanes, ahead[e], 0);
        }
        const std::uint32_t first = static_cast<std::uint32_t>(number(self, 0)) + 2;
        ring[first % kRingWords] = make_uint4(ahead[0], ahead[1], next[0], 0);
        ring[(first + 1) % kRingWords] = make_uint4(ahead[1], next[0], next[1], 0);
      } else {
        HEADRACE_ZSTD_UNROLL for (unsigned e = 0; e < kEach; ++e) {
          const std::uint32_t w = (static_cast<std::uint32_t>(number(self, e)) + kRingLead) % kRingWords;
          ring[w] = ahead[e];
          if (w < kRingRepeated) ring[kRingWords + w] = ahead[e];
        }
      }
      low -= kUnit;
      HEADRACE_ZSTD_UNROLL for (unsigned e = 0; e < kEach; ++e) {
        const std::int32_t i = number(self, e);
        ahead[e] = 0;
        if (i >= 0) ahead[e] = words[i];
      }
    }
  }

 private:
  __device__ std::int32_t number(unsigned self, unsigned e) const {
    return low - kUnit + static_cast<std::int32_t>(self * kEach + e);
  }
};

// Walks the blocks of a round that have sequences. A warp takes kBlocks at a time; each block gets a share of the
// lanes, and the first lane of a share walks. Each warp of a thread block has its own space.
template <unsigned kBlocks>
__device__ inline void walk_body(const Job& job, std::uint32_t r, WalkSpace<kBlocks>* spaces) {
  using Form = WalkForm<kBlocks>;
  using Entry = typename Form::Entry;
  constexpr unsigned kLanes = 32 / kBlocks;
  constexpr std::int32_t kBatchBits = Form::kBatch * kMaxTaken + 32;
  static_assert(kBatchBits / 32 + Form::kUnitWords + 4 <= kRingWords);
  WalkSpace<kBlocks>& space = spaces[threadIdx.x / 32];
  const auto* const entries = reinterpret_cast<const typename Form::Unit*>(kBlocks == 1 ? spaces : &space);
  Round& round = job.round[r];
  const unsigned lane = lane_id(), which = lane / kLanes, self = lane % kLanes;
  const std::uint32_t all = round.many + round.few;
  static_assert(kIndexEvery % Form::kBatch == 0);
  if (job.index.any_given && round.rest == 0) return;
  for (;;) {
    std::uint32_t ticket = 0;
    if (lane == 0) ticket = atomicAdd(&round.walk_ticket, kBlocks);
    ticket = __shfl_sync(kAllLanes, ticket, 0);
    if (ticket >= all) return;
    std::uint32_t x = ticket + which < all ? walk_of(job, round, ticket + which) : kNone;
    if (x != kNone) {
      const Block& block = job.blocks[x];
      const bool by_index = block.index == IndexUse::kWalk && !block.rewalk;
      if (by_index || !fine(job, job.streams[block.stream].chunk)) x = kNone;
    }
    x = __shfl_sync(kAllLanes, x, which * kLanes);  // other warps may have marked it bad meanwhile
    __syncwarp();
    const auto origin_of = [&](unsigned k) {
      return static_cast<std::uint32_t>(reinterpret_cast<const typename Form::Unit*>(space.entries[k]) - entries);
    };
    // One lane per table reads the description; then the warp builds the tables one after the other.
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
                         __shfl_sync(kAllLanes, rle, k), space.entries[k / kTables] + table_at(k % kTables),
                         origin_of(k / kTables), lane);
      __syncwarp();
    }
    unsigned logs[kTables];
    for (unsigned k = 0; k < kTables; ++k) logs[k] = __shfl_sync(kAllLanes, read.log, which * kTables + k);

    Walker own;  // used by the first lane of a share
    BackwardBits bits;
    RingFiller<kBlocks> filler;
    std::uint32_t chunk = 0, position = 0;
    if (x != kNone) {
      const Block& block = job.blocks[x];
      const ZstdStream& stream = job.streams[block.stream];
      chunk = stream.chunk;
      position = block.bits_at;
      bits = BackwardBits(stream.src + block.bits_at, block.bits_bytes);
      filler.begin(bits, bits.top(), self);
      if (self == 0) own.left = block.sequences;
      own.slots = reinterpret_cast<uint2*>(job.slots_of(block));
      own.begin<Entry>(first_point(bits, logs), origin_of(which));
      if (block.index == IndexUse::kCollect && block.sequences > kIndexEvery) {
        own.entry = job.entries_of(block, chunk);
        own.entry_left = block.sequences - kIndexEvery;
      }
    }
    while (__any_sync(kAllLanes, own.left != 0)) {
      const std::int32_t at = __shfl_sync(kAllLanes, own.at, which * kLanes);
      const bool goes_on = __shfl_sync(kAllLanes, own.left, which * kLanes) != 0;
      if (goes_on) filler.fill((at - kBatchBits) >> 5, self, space.ring[which]);
      __syncwarp();
      if (own.left != 0) {
        own.walk(own.left < Form::kBatch ? own.left : Form::kBatch, entries, space.ring[which]);
        // No states are read after the last sequence.
        if (own.left == 0) own.at += static_cast<std::int32_t>(own.last_bits);
        const std::int32_t unused = own.at - bits.lead;
        if (unused < 0) {
          // Older versions of libzstd do not check this.
          give_up(job, chunk, position, DecodeReason::kHostOnly);
          own.left = 0;
        } else if (own.left == 0 && unused != 0) {
          // Older versions read states after the last sequence too, so they only see bits left over after that.
          give_up(job, chunk, position, unused > 26 ? DecodeReason::kTrailing : DecodeReason::kHostOnly);
        } else if (own.left == own.entry_left) {
          own.collect<Entry>(bits.lead);
        }
      }
      __syncwarp();
    }
  }
}

}  // namespace headrace::codec::gpu::zstd
