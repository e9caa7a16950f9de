// The LZ stage by tiles: sequences (literals, then a match) become bytes with all of the device at work on each stream.
//
// The output is cut into tiles that fit into shared memory. A block writes for each byte of a tile either the byte or
// a link to the byte it is a copy of, follows links by doubling until only bytes are left, and writes the tile. A block
// does several neighbouring tiles in order, a section, so earlier tiles of the section are read as they lie. A byte
// that comes from before the section is a byte already if that is where the slice of tiles or the stream began, else it
// stays open: a 16-bit link behind it says how far before the section's start it comes from, and close_open_bytes goes
// from section to section, at most as often as there are sections. With as many streams as blocks little stays open;
// with one stream a section is a few tiles. A tile that lies inside one match that repeats itself is left out at first:
// each of its bytes is known to come from before the match. Slices follow each other, so that scratch is needed for
// one.
//
// Sequences come from a class like Lz4Sequences, whose put() calls put_sequence() for all that touch a tile, with
// offsets that do not reach before the stream. Each produces at least 4 bytes, but for the stream's last. Nothing here
// looks at compressed bytes other than literals. Streams whose outcome is bad are passed over. Included by
// lz4_tiles.cu, and by tests that run it on the CPU.
#pragma once

#include "lz4_device.cuh"

#ifdef __CUDACC__
#define HEADRACE_LZ4_UNROLL _Pragma("unroll")
#else
#define HEADRACE_LZ4_UNROLL
#endif

namespace headrace::codec::gpu::tiles {

using U8 = unsigned char;
using U16 = unsigned short;
using U32 = unsigned;
using S32 = int;
using U64 = unsigned long long;

inline constexpr U32 kAllLanes = 0xffffffffu;
inline constexpr U32 kNoPosition = 0xffffffffu;

// One of the streams that go by tiles. Positions in the source are counted from `base`.
struct TileStream {
  const U8* base;  // aligned to 16 bytes, at or before the first byte
  U8* dst;
  U32 begin, end;  // positions of the first byte and behind the last
  U32 dst_bytes, chunk;
  U32 first_segment, segments, first_tile, tiles;
  U32 stored, longest_run;
};

// Bytes that a stream has at least if it goes by tiles. REQUIRES: dst is not below what scratch was sized for.
struct TileLeast {
  U32 src, dst, stored;
};

struct TilePlan {
  U32 streams, segments, tiles, padding;
};

// What lies in scratch for the tiles of one slice, except for `tile_stream`, which has all tiles.
struct TileArrays {
  U64* repeats;   // by tile, if it is a repeat: record_word(start of the match, 0, offset)
  U32* masks;     // a bit for each byte: open
  U16* links;     // by byte, if open: distance from the section's start, less one
  U32* sections;  // by tile: where its section starts, kNoPosition if nothing is open, or kRepeat
  U32* tile_stream;
  U32 first_tile, tiles;
};
inline constexpr U32 kRepeat = 0xfffffffeu;

__device__ inline U64 record_word(U32 literals_at, U32 literals, U32 offset) {
  return static_cast<U64>(offset) << 48 | static_cast<U64>(literals < 0xffff ? literals : 0xffff) << 32 | literals_at;
}

__device__ inline void give_up(std::uint64_t* outcomes, U32 chunk, unsigned stage, U64 position,
                               device::DecodeReason reason) {
  const U64 where =
      static_cast<U64>(stage & 15) << 52 | (position & ((U64{1} << 44) - 1)) << 8 | static_cast<U64>(reason);
  atomicMin(reinterpret_cast<U64*>(outcomes) + chunk, where);
}
__device__ inline bool is_bad(const std::uint64_t* outcomes, U32 chunk) { return outcomes[chunk] != ~std::uint64_t{0}; }

// ---- tiles ----

template <U32 tile_bytes, U32 threads>
struct TileShared {
  static constexpr U32 kTile = tile_bytes, kThreads = threads, kWords = tile_bytes / 32;
  static constexpr U32 kRows = tile_bytes / threads;
  static_assert(tile_bytes <= 32768 && tile_bytes % 32 == 0 && threads % 32 == 0 && tile_bytes % threads == 0);
  static_assert(kRows <= 32, "a bit of a register for each row");

  alignas(16) U16 link[tile_bytes];         // below 0x8000: a byte of this tile; else kByte + byte, or kOpen
  alignas(16) U64 records[tile_bytes / 4];  // by 4 bytes: record_word() of the sequence that starts there
  U32 starts[kWords];                       // a bit for each byte: a sequence starts there
  U16 last[kWords];                         // before this word: one more than where the last sequence starts, or 0
  U32 warp[32];
  U64 head;                   // record_word() of the sequence under way where the tile begins
  U32 first_part, last_part;  // for the source of sequences
};
inline constexpr U32 kByte = 0x8000, kOpen = 0x8100;

// What a block knows while it goes through a section.
struct Section {
  U32 start = 0;       // in the stream
  U32 open_until = 0;  // tiles behind this have nothing open
  bool closed = true;  // nothing before the section is open
};

// A sequence of the tile that begins at `position`. Its output begins at `out`, before the tile's end; its match, if
// there is one, comes from `offset` back. Of the one that covers the tile's first byte only the rest is kept; where
// that is in its match, the record says where the match starts.
template <class Shared>
__device__ inline void put_sequence(Shared& shared, U32 position, U32 out, U32 literals, U32 literals_at, U32 offset) {
  if (out >= position) {
    const U32 at = out - position;
    shared.records[at / 4] = record_word(literals_at, literals, offset);
    atomicOr(&shared.starts[at / 32], 1u << (at % 32));
  } else {
    const U32 past = position - out;
    shared.head = past < literals ? record_word(literals_at + past, literals - past, offset)
                                  : record_word(out + literals, 0, offset);
  }
}

// Fills `last`. Returns whether any sequence starts in the tile.
template <class Shared>
__device__ inline bool number_starts(Shared& shared) {
  constexpr U32 kEach = (Shared::kWords + Shared::kThreads - 1) / Shared::kThreads;
  const U32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  U32 before[kEach], last = 0;
  HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kEach; ++k) {
    const U32 w = t * kEach + k;
    before[k] = last;
    if (w >= Shared::kWords) continue;
    const U32 bits = shared.starts[w];
    if (bits != 0) last = w * 32 + 32 - static_cast<U32>(__clz(static_cast<int>(bits)));
  }
  U32 most = last;
  for (U32 d = 1; d < 32; d *= 2) {
    const U32 other = __shfl_up_sync(kAllLanes, most, d);
    if (lane >= d && other > most) most = other;
  }
  U32 behind = __shfl_up_sync(kAllLanes, most, 1);
  if (lane == 0) behind = 0;
  if (lane == 31) shared.warp[warp] = most;
  const bool any = __syncthreads_or(last != 0 ? 1 : 0) != 0;
  for (U32 i = 0; i < warp; ++i) {
    if (shared.warp[i] > behind) behind = shared.warp[i];
  }
  HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kEach; ++k) {
    const U32 w = t * kEach + k;
    if (w < Shared::kWords) shared.last[w] = static_cast<U16>(before[k] > behind ? before[k] : behind);
  }
  __syncthreads();
  return any;
}

// One byte of the tile: itself, a link inside the tile, or open.
template <class Shared>
__device__ inline U32 first_link(const Shared& shared, const TileArrays& a, const TileStream& s, const Section& section,
                                 U32 tile, U32 position, U64 head, U32 i) {
  const U32 word = i / 32, bits = shared.starts[word] & (0xffffffffu >> (31 - i % 32));
  const U32 behind = bits != 0 ? word * 32 + 32 - static_cast<U32>(__clz(static_cast<int>(bits))) : shared.last[word];
  U64 record = head;
  U32 start = 0;
  if (behind != 0) {
    start = behind - 1;
    record = shared.records[start / 4];
  }
  const U32 literals = static_cast<U32>(record >> 32) & 0xffff, done = i - start;
  if (done < literals) return kByte | s.base[static_cast<U32>(record) + done];
  const U32 offset = static_cast<U32>(record >> 48), matched = done - literals;
  if (offset == 0) return kByte;  // liblz4 gives zeros
  S32 from = static_cast<S32>(i) - static_cast<S32>(offset);
  if (matched >= offset) {  // a match that overlaps itself repeats its first `offset` bytes
    from = static_cast<S32>(start + literals + (offset == 1 ? 0 : matched % offset)) - static_cast<S32>(offset);
    if (from < 0) from += static_cast<S32>(offset);
  }
  if (from >= 0) return static_cast<U32>(from);
  const U32 at = position + static_cast<U32>(from);
  const U32 shift = tile * Shared::kTile - position;
  if (!section.closed) {
    const bool inside = at >= section.start;
    bool open = !inside;
    if (inside && at < section.open_until) open = (a.masks[(at + shift) / 32] >> ((at + shift) % 32) & 1) != 0;
    if (open) {
      a.links[tile * Shared::kTile + i] = inside ? a.links[at + shift] : static_cast<U16>(section.start - 1 - at);
      return kOpen;
    }
  }
  return kByte | s.dst[at];
}

// A tile inside one match. If what the match repeats is there already, the tile is written, else it is left for
// close_open_bytes(), and what comes behind is a section of its own.
template <class Shared>
__device__ inline void repeat_tile(const TileArrays& a, const TileStream& s, Section& section, U32 tile, U32 position,
                                   U32 bytes, U64 head) {
  const U32 match_at = static_cast<U32>(head), offset = static_cast<U32>(head >> 48);
  const U32 t = threadIdx.x;
  const U32 before = tile * Shared::kTile < position ? position - tile * Shared::kTile : 0;  // of the slice
  if (match_at <= before || (section.closed && section.open_until == 0)) {
    U32 phase = (position + t - match_at) % offset;
    const U32 step = Shared::kThreads % offset;
    for (U32 i = t; i < bytes; i += Shared::kThreads) {
      s.dst[position + i] = s.dst[match_at - offset + phase];
      phase += step;
      if (phase >= offset) phase -= offset;
    }
    if (!section.closed) {
      for (U32 w = t; w < Shared::kWords; w += Shared::kThreads) a.masks[tile * Shared::kWords + w] = 0;
    }
  } else {
    if (t == 0) {
      a.sections[tile] = kRepeat;
      a.repeats[tile] = head;
    }
    section.start = position + Shared::kTile;
    section.closed = false;
    section.open_until = 0;
  }
  __syncthreads();
}

// `tile` is its number in the slice, `position` where it begins in the stream. False if the stream is bad.
template <class Shared, class Sequences>
__device__ inline bool decode_tile(Shared& shared, const TileArrays& a, const TileStream& s, const Sequences& sequences,
                                   Section& section, U32 tile, U32 position, U32& sequence_hint) {
  const U32 t = threadIdx.x;
  const U32 left = s.dst_bytes - position, bytes = left < Shared::kTile ? left : Shared::kTile;
  for (U32 w = t; w < Shared::kWords; w += Shared::kThreads) shared.starts[w] = 0;
  if (t == 0) {
    a.sections[tile] = kNoPosition;
    shared.head = s.stored != 0 ? record_word(s.begin + position, 0xffff, 0) : 0;
  }
  __syncthreads();
  if (s.stored == 0 && !sequences.put(shared, s, position, bytes, sequence_hint)) return false;
  const bool any = number_starts(shared);
  const U64 head = shared.head;
  if (!any && (static_cast<U32>(head >> 32) & 0xffff) >= bytes) {  // inside a run of literals
    const U8* const from = s.base + static_cast<U32>(head);
    for (U32 i = t; i < bytes; i += Shared::kThreads) s.dst[position + i] = from[i];
    if (!section.closed) {
      for (U32 w = t; w < Shared::kWords; w += Shared::kThreads) a.masks[tile * Shared::kWords + w] = 0;
    }
    __syncthreads();
    return true;
  }
  if (!any && static_cast<U32>(head >> 32) << 16 == 0 && head >> 48 != 0) {
    repeat_tile<Shared>(a, s, section, tile, position, bytes, head);
    return true;
  }
  U32 active = 0;
  HEADRACE_LZ4_UNROLL for (U32 j = 0; j < Shared::kRows; ++j) {
    const U32 i = j * Shared::kThreads + t;
    const U32 link = i < bytes ? first_link(shared, a, s, section, tile, position, head, i) : kByte;
    shared.link[i] = static_cast<U16>(link);
    active |= (link < kByte ? 1u : 0u) << j;
  }
  __syncthreads();
  // Each round at least doubles how far a link goes; others shorten it at the same time, which does no harm.
  for (U32 round = 0; round < 16; ++round) {
    U32 rows = __reduce_or_sync(kAllLanes, active);
    while (rows != 0) {
      const U32 j = static_cast<U32>(__ffs(static_cast<int>(rows))) - 1;
      rows &= rows - 1;
      if ((active >> j & 1) == 0) continue;
      const U32 i = j * Shared::kThreads + t;
      const U32 one = shared.link[i], two = shared.link[one];
      if (two >= kByte) {
        active &= ~(1u << j);
        continue;
      }
      const U32 three = shared.link[two];
      if (three >= kByte) {
        active &= ~(1u << j);
        shared.link[i] = static_cast<U16>(two);
      } else {
        shared.link[i] = static_cast<U16>(three);
      }
    }
    if (__syncthreads_or(active != 0 ? 1 : 0) == 0) break;
  }
  bool open_here = false;
  HEADRACE_LZ4_UNROLL for (U32 j = 0; j < Shared::kRows; ++j) {
    const U32 i = j * Shared::kThreads + t;
    U32 from = i, value = shared.link[i];
    if (value < kByte) {
      from = value;
      value = shared.link[from];
    }
    const bool open = i < bytes && value == kOpen;
    if (i < bytes && !open) s.dst[position + i] = static_cast<U8>(value);
    if (!section.closed) {
      const U32 vote = __ballot_sync(kAllLanes, open);
      if (t % 32 == 0) a.masks[tile * Shared::kWords + i / 32] = vote;
      if (open && from != i) a.links[tile * Shared::kTile + i] = a.links[tile * Shared::kTile + from];
      open_here |= open;
    }
  }
  if (__syncthreads_or(open_here ? 1 : 0) != 0) {
    section.open_until = position + Shared::kTile;
    if (t == 0) a.sections[tile] = section.start;
  }
  return true;
}

// A block takes a section: as many neighbouring tiles as there are for each block.
template <class Shared, class Sequences>
__device__ inline void decode_tiles(Shared& shared, const TilePlan& plan, const TileStream* streams,
                                    const TileArrays& a, const Sequences& sequences, const std::uint64_t* outcomes) {
  if (plan.tiles <= a.first_tile) return;
  const U32 left = plan.tiles - a.first_tile, tiles = left < a.tiles ? left : a.tiles;
  const U32 each = (tiles + gridDim.x - 1) / gridDim.x;
  const U32 first = blockIdx.x * each, last = first + each < tiles ? first + each : tiles;
  U32 index = kNoPosition, sequence_hint = kNoPosition;
  TileStream s{};
  Section section;
  for (U32 tile = first; tile < last; ++tile) {
    const U32 now = a.tile_stream[a.first_tile + tile];
    if (now != index) {
      index = now;
      s = streams[index];
      section = Section{};
      sequence_hint = kNoPosition;
      section.start = (a.first_tile + tile - s.first_tile) * Shared::kTile;
      section.closed = section.start == 0 || tile == 0;
    }
    const U32 position = (a.first_tile + tile - s.first_tile) * Shared::kTile;
    if (__syncthreads_or(is_bad(outcomes, s.chunk) ? 1 : 0) != 0 ||
        !decode_tile(shared, a, s, sequences, section, tile, position, sequence_hint)) {
      if (threadIdx.x == 0) a.sections[tile] = kNoPosition;
      section = Section{};  // what is done with the rest does not matter, only where
      section.start = position;
    }
  }
}

// Where a byte of a repeat comes from.
__device__ inline U32 repeated(U64 record, U32 position) {
  const U32 match_at = static_cast<U32>(record), offset = static_cast<U32>(record >> 48);
  return match_at - offset + (position - match_at) % offset;
}

// Follows the links of open bytes from section to section, until a byte that was written.
template <U32 tile_bytes>
__device__ inline void close_open_bytes(const TilePlan& plan, const TileStream* streams, const TileArrays& a,
                                        const std::uint64_t* outcomes) {
  constexpr U32 kWords = tile_bytes / 32, kAtOnce = kWords % 4 == 0 ? 4 : 1;
  if (plan.tiles <= a.first_tile) return;
  const U32 left = plan.tiles - a.first_tile, tiles = left < a.tiles ? left : a.tiles;
  const U32 lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  const U32 groups = tiles * (kWords / kAtOnce);
  for (U32 group = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; group < groups; group += warps) {
    const U32 tile = group / (kWords / kAtOnce);
    const U32 start = a.sections[tile];
    if (start == kNoPosition) continue;
    const TileStream s = streams[a.tile_stream[a.first_tile + tile]];
    if (is_bad(outcomes, s.chunk)) continue;
    const U32 shift = (s.first_tile - a.first_tile) * tile_bytes;  // position + shift: number in the slice
    U32 at[kAtOnce];
    U32 open = 0;
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kAtOnce; ++k) {
      const U32 byte = (group * kAtOnce + k) * 32 + lane;
      at[k] = 0;
      if (start == kRepeat) {
        const U32 position = byte - shift;
        if (position < s.dst_bytes) {
          open |= 1u << k;
          at[k] = repeated(a.repeats[tile], position);
        }
      } else if ((a.masks[byte / 32] >> lane & 1) != 0) {
        open |= 1u << k;
        at[k] = start - 1 - a.links[byte];
      }
    }
    if (open == 0) continue;
    const U32 mine = open;
    for (U32 hop = 0; hop < tiles && open != 0; ++hop) {
      HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kAtOnce; ++k) {
        if ((open >> k & 1) == 0) continue;
        const U32 byte = at[k] + shift;
        U32 section = kNoPosition;
        if (byte < tiles * tile_bytes) section = a.sections[byte / tile_bytes];  // else it is before the slice
        if (section == kRepeat) {
          at[k] = repeated(a.repeats[byte / tile_bytes], at[k]);
        } else if (section == kNoPosition || (a.masks[byte / 32] >> (byte % 32) & 1) == 0) {
          open &= ~(1u << k);
        } else {
          at[k] = section - 1 - a.links[byte];
        }
      }
    }
    U8 value[kAtOnce] = {};
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kAtOnce; ++k) {
      if ((mine >> k & 1) != 0) value[k] = s.dst[at[k]];
    }
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < kAtOnce; ++k) {
      if ((mine >> k & 1) != 0) s.dst[(group * kAtOnce + k) * 32 + lane - shift] = value[k];
    }
  }
}

}  // namespace headrace::codec::gpu::tiles
