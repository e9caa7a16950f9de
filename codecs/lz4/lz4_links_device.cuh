// The links of a tile: each byte becomes a cell that holds the byte, holds a link to the cell that it copies, or is
// marked open. See lz4_tiles_device.cuh.
//
// Threads that parse tokens call TileWriter::put() for each sequence. Short matches from inside the tile, the most
// common kind, become cells at once. Everything that needs memory accesses or index arithmetic (literals, matches that
// come from before the tile, overlap themselves or are long) is listed first, so that lanes with the same kind of work
// run together.
#pragma once

#include <cstring>

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

// One of the streams that go by tiles. Source positions are relative to `base`.
struct TileStream {
  const U8* base;  // aligned to 16 bytes, at or before the first byte
  U8* dst;
  U32 begin, end;  // positions of the first byte and past the last
  U32 dst_bytes, chunk;
  U32 first_segment, segments, first_tile, tiles;
  U32 first_slot, share;  // its first slot, and its number of tiles in each slice
  U32 stored, longest_run;
};

// Minimum sizes of a stream that goes by tiles. REQUIRES: dst is at least the value that scratch was sized for.
struct TileLeast {
  U32 src, dst, stored;
  U32 from = 0;  // decoded: smaller streams are ignored
};

struct TilePlan {
  U32 streams, segments, tiles;
  U32 slots, slices;  // tiles per slice, and number of slices
  U32 whole;          // a block takes whole streams: one slice, and nothing is open
  U32 next;           // ticket for whole streams
  U32 retry;          // a stream passes through skipped segments
  U32 followed;       // 1 + the last slice that follow_open_bytes() worked on
  U32 left;           // 1 + the last slice that still has open bytes
};

// Arrays in scratch for the tiles of one slice, by slot.
struct TileArrays {
  U32* masks;        // a bit for each byte: open
  U16* links;        // by byte, if open: distance before the section's start, minus one
  U32* sections;     // section_word(), or kNoPosition if nothing is open
  U32* masks_left;   // like masks, after follow_open_bytes()
  U32* slot_stream;  // the same in every slice
  U32* bounds;  // kMaxTileBlocks + 1 for each slice: where each block's slots begin, and where the last block's end
  U32* open_threads;  // by slice: threads of its tiles that have open bytes
  U32 slice;
};
inline constexpr U32 kMaxTileBlocks = 1024;

// The block whose section contains a slot, and the number of the section's slots before it.
__device__ inline U32 section_word(U32 block, U32 before) { return before << 10 | block; }
__device__ inline U32 section_block(U32 word) { return word & (kMaxTileBlocks - 1); }
__device__ inline U32 section_before(U32 word) { return word >> 10; }

// ---- outcomes ----

__device__ inline void give_up(std::uint64_t* outcomes, U32 chunk, unsigned stage, U64 position,
                               device::DecodeReason reason) {
  const U64 where =
      static_cast<U64>(stage & 15) << 52 | (position & ((U64{1} << 44) - 1)) << 8 | static_cast<U64>(reason);
  atomicMin(reinterpret_cast<U64*>(outcomes) + chunk, where);
}
__device__ inline bool is_bad(const std::uint64_t* outcomes, U32 chunk) { return outcomes[chunk] != ~std::uint64_t{0}; }

// A block's state while it processes a section.
struct Section {
  U32 slice_start = 0;  // in the stream
  U32 start = 0;
  U32 open_until = 0;  // tiles after this have nothing open
  bool closed = true;  // nothing before the section is open
  U32 block = 0;
};

// A sequence: literals at `literals_at`, then a match.
struct TileSequence {
  U32 out, literals, literals_at, match, offset;
};

// The part that lies in the tile of a sequence that covers its first byte and began earlier.
struct TileHead {
  U32 bytes;     // in the tile; the first `literals` of them are literals
  U32 literals;  // at `literals_at`
  U32 literals_at;
  U32 match_at, offset;  // where its match begins in the stream
};

// Loads several cells at once. `T` has the same width, and the address must be aligned to it.
template <class T>
__device__ inline T load_cells(const U16* cells) {
#ifdef __CUDACC__
  return *reinterpret_cast<const T*>(cells);
#else
  T value;
  std::memcpy(&value, cells, sizeof(T));
  return value;
#endif
}
template <class T>
__device__ inline void store_cells(U16* cells, T value) {
#ifdef __CUDACC__
  *reinterpret_cast<T*>(cells) = value;
#else
  std::memcpy(cells, &value, sizeof(T));
#endif
}

// Each lane of a warp has four consecutive bytes, from `byte` on; `open` says which of them are open. Stores their bits
// in `masks`.
__device__ inline void store_open(U32* masks, U32 byte, U32 open, bool store) {
  U32 word = open << (threadIdx.x % 8 * 4);
  for (U32 d = 1; d < 8; d *= 2) word |= __shfl_xor_sync(kAllLanes, word, d);
  if (threadIdx.x % 8 == 0 && store) masks[byte / 32] = word;
}

template <U32 tile_bytes, U32 threads>
struct TileShared {
  static constexpr U32 kTile = tile_bytes, kThreads = threads, kWords = tile_bytes / 32;
  static constexpr U32 kPieces = tile_bytes / 8;
  // Long ones are stored after the short ones.
  static constexpr U32 kLongPieces = kPieces / 4, kShortPieces = kPieces - kLongPieces;
  static_assert(tile_bytes <= 32768 && tile_bytes % 32 == 0 && threads % 32 == 0);

  alignas(16) U16 cell[tile_bytes];  // a number smaller than its own index: a link; kByte + byte; or kOpen
  alignas(16) U64 pieces[kPieces];   // pieces of sequences, see piece_of()
  U32 piece_count, long_count;       // may exceed the capacity
  U32 sequences;                     // whether any starts in the tile
  TileHead head;
  TileSequence carry;  // the sequence that reaches into the next tile, and where it ends; 0 if there is none
  U32 carry_end;
  TileStream stream;  // in shared memory to save registers
  U32 bad, taken;
};
inline constexpr U32 kByte = 0x8000, kOpen = 0x8100;

// Longer pieces are done by a whole warp; the longest are split, so that all warps share the work.
inline constexpr U32 kLanePiece = 32, kLongestPiece = 512;

// `what`: the offset of a match, or the source position of literals.
__device__ inline U64 piece_of(bool match, U32 at, U32 length, U32 what) {
  return static_cast<U64>(length << 16 | (match ? kByte : 0) | at) << 32 | what;
}

template <class Shared>
struct TileWriter {
  Shared& shared;
  const TileArrays& a;
  const TileStream& s;
  const Section& section;
  U32 tile, position, bytes;  // its slot, its beginning in the stream, its size

  // Adds a sequence that touches the tile and begins at `out` in the stream. Its match, if any, copies from `offset`
  // bytes back. Any number of threads may call this, in any order.
  __device__ void put(U32 out, U32 literals, U32 literals_at, U32 match, U32 offset) const {
    if (out + literals + match > position + bytes) {
      shared.carry = {out, literals, literals_at, match, offset};
      shared.carry_end = out + literals + match;
    }
    if (out < position) {
      const U32 past = position - out, all = literals + match - past;
      const U32 left = past < literals ? literals - past : 0;
      const U32 most = all < bytes ? all : bytes;
      shared.head = {most, left < most ? left : most, literals_at + past, out + literals, offset};
      return;
    }
    shared.sequences = 1;
    const U32 at = out - position, room = bytes - at;
    if (literals >= room) {
      put_pieces(false, at, room, literals_at);
      return;
    }
    if (literals != 0) put_pieces(false, at, literals, literals_at);
    U32 to = at + literals;
    U32 length = match < room - literals ? match : room - literals;
    if (length > kLanePiece || offset < length || offset > to) {
      put_pieces(true, to, length, offset);
      return;
    }
    U32 from = to - offset;
    if (to % 2 != 0) {
      if (length == 0) return;
      shared.cell[to++] = static_cast<U16>(from++);
      --length;
    }
    U32 pair = from * 0x10001 + 0x10000;
    for (; length >= 2; length -= 2, to += 2, pair += 0x20002) store_cells(&shared.cell[to], pair);
    if (length != 0) shared.cell[to] = static_cast<U16>(pair);
  }

  // Called by all threads of the block after all sequences were put.
  __device__ void write_pieces() const {
    const U32 t = threadIdx.x;
    const TileHead head = shared.head;
    for (U32 i = t; i < head.bytes; i += Shared::kThreads) {
      shared.cell[i] = static_cast<U16>(i < head.literals ? kByte | s.base[head.literals_at + i] : head_match(head, i));
    }
    const U32 longs = shared.long_count < Shared::kLongPieces ? shared.long_count : Shared::kLongPieces;
    for (U32 i = t / 32; i < longs; i += Shared::kThreads / 32) {
      const U64 piece = shared.pieces[Shared::kShortPieces + i];
      write_piece(static_cast<U32>(piece >> 32), static_cast<U32>(piece), t % 32, 32);
    }
    const U32 shorts = shared.piece_count < Shared::kShortPieces ? shared.piece_count : Shared::kShortPieces;
    for (U32 i = t; i < shorts; i += Shared::kThreads) {
      const U64 piece = shared.pieces[i];
      write_piece(static_cast<U32>(piece >> 32), static_cast<U32>(piece), 0, 1);
    }
  }

 private:
  __device__ void put_pieces(bool match, U32 at, U32 length, U32 what) const {
    for (U32 done = 0; done < length; done += kLongestPiece) {
      const U32 more = length - done < kLongestPiece ? length - done : kLongestPiece;
      U32 now = what;
      if (!match) {
        now += done;
      } else if (done != 0 && what != 0) {
        now += done / what * what;  // the match overlaps itself, so any multiple of its offset works
      }
      const U64 piece = piece_of(match, at + done, more, now);
      const bool is_long = more > kLanePiece;
      const U32 slot = atomicAdd(is_long ? &shared.long_count : &shared.piece_count, 1u);
      if (slot < (is_long ? Shared::kLongPieces : Shared::kShortPieces)) {
        shared.pieces[is_long ? Shared::kShortPieces + slot : slot] = piece;
      } else {
        write_alone(static_cast<U32>(piece >> 32), now);
      }
    }
  }

  // Fallback when a list is full, which is rare, so the code is short.
  __device__ void write_alone(U32 high, U32 what) const {
    const U32 to = high & (kByte - 1), length = high >> 16;
    for (U32 k = 0; k < length; ++k) {
      U32 value = kByte;
      if ((high & kByte) == 0) {
        value |= s.base[what + k];
      } else if (what != 0) {
        const S32 from = static_cast<S32>(to + k % what) - static_cast<S32>(what);
        value = from >= 0 ? static_cast<U32>(from) : cell_before_tile(to + k, position + static_cast<U32>(from));
      }
      shared.cell[to + k] = static_cast<U16>(value);
    }
  }

  // The cell of byte i, which is a copy of stream byte `at`, before the tile.
  __device__ U32 cell_before_tile(U32 i, U32 at) const {
    if (!section.closed) {
      const U32 shift = tile * Shared::kTile - position;
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
  __device__ U32 head_match(const TileHead& head, U32 i) const {
    if (head.offset == 0) return kByte;  // liblz4 produces zeros
    // The match overlaps itself. Bytes after the section's start are also copies of bytes just before it, so a link
    // never has to reach further than an offset can.
    const bool before = !section.closed && head.match_at <= section.start;
    const U32 origin = before ? section.start : head.match_at, done = position + i - origin;
    const U32 at = origin - head.offset + (done < head.offset ? done : done % head.offset);
    return at >= position ? at - position : cell_before_tile(i, at);
  }

  // Writes the piece by one thread (first 0, step 1), or by a warp, with each lane starting at its number.
  __device__ void write_piece(U32 high, U32 what, U32 first, U32 step) const {
    const U32 to = high & (kByte - 1), length = high >> 16;
    if ((high & kByte) == 0) {
      const U8* const from = s.base + what;
      for (U32 k = first; k < length; k += 4 * step) {
        U32 value[4];
        HEADRACE_LZ4_UNROLL for (U32 j = 0; j < 4; ++j) value[j] = k + j * step < length ? from[k + j * step] : 0;
        HEADRACE_LZ4_UNROLL for (U32 j = 0; j < 4; ++j) {
          if (k + j * step < length) shared.cell[to + k + j * step] = static_cast<U16>(kByte | value[j]);
        }
      }
      return;
    }
    if (what == 0) {
      for (U32 k = first; k < length; k += step) shared.cell[to + k] = kByte;
      return;
    }
    for (U32 k = first; k < length; k += 4 * step) write_match(to, length, what, k, step);
  }

  // Writes four bytes of a match; equivalent to cell_before_tile(), but with overlapping loads.
  __device__ void write_match(U32 to, U32 length, U32 offset, U32 first, U32 step) const {
    const U32 shift = tile * Shared::kTile - position;
    S32 from[4];
    U32 open[4], value[4];
    HEADRACE_LZ4_UNROLL for (U32 j = 0; j < 4; ++j) {
      const U32 k = first + j * step;  // a match that overlaps itself repeats its first bytes
      from[j] = static_cast<S32>(to + (k < offset ? k : k % offset)) - static_cast<S32>(offset);
      open[j] = 0;
      if (section.closed || from[j] >= 0 || k >= length) continue;
      const U32 at = position + static_cast<U32>(from[j]);
      if (at < section.start) {
        open[j] = 1;
      } else if (at < section.open_until) {
        open[j] = a.masks[(at + shift) / 32] >> ((at + shift) % 32) & 1;
      }
    }
    HEADRACE_LZ4_UNROLL for (U32 j = 0; j < 4; ++j) {
      const U32 at = position + static_cast<U32>(from[j]);
      value[j] = static_cast<U32>(from[j]);
      if (from[j] >= 0 || first + j * step >= length) continue;
      if (open[j] == 0) {
        value[j] = kByte | s.dst[at];
      } else {
        value[j] = at < section.start ? section.start - 1 - at : a.links[at + shift];
      }
    }
    HEADRACE_LZ4_UNROLL for (U32 j = 0; j < 4; ++j) {
      const U32 k = first + j * step;
      if (k >= length) continue;
      if (open[j] != 0) a.links[tile * Shared::kTile + to + k] = static_cast<U16>(value[j]);
      shared.cell[to + k] = static_cast<U16>(open[j] != 0 ? kOpen : value[j]);
    }
  }
};

}  // namespace headrace::codec::gpu::tiles
