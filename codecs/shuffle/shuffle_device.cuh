// Device code of the un-shuffles: bytes, Blosc's bits, and the plain copy of what no filter touched.
//
// Included by shuffle_stage.cu and by Blosc's, and by tests that run it on the CPU. What the filters do is defined by
// src/codec/unshuffle.h: plane j holds byte j of every element; rows 8 j .. 8 j + 7 hold its bits.
//
// A thread block does a tile of at most 16 KiB. Elements of 2, 4 and 8 bytes are joined in registers, straight from
// the planes to 16-byte stores. All else goes through shared memory: planes are fetched in words, bits transposed eight
// rows at a time, and the elements put together from there. Each way is a kernel of its own: side by side in one they
// would share, and spill, its registers.
//
// Planes may have any alignment and dst too. No load reaches over the edge of a plane, not even within a word: the
// page behind may not be there.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/gpu_stage.h"

#ifdef __CUDACC__
#define HEADRACE_SHUFFLE_UNROLL _Pragma("unroll")
#else
#define HEADRACE_SHUFFLE_UNROLL
#endif

namespace headrace::codec::gpu::shuffle {

using Byte = unsigned char;
using U64 = unsigned long long;

enum class Filter : std::uint32_t { kNone, kBytes, kBits };

constexpr unsigned kTileBytes = 16384;
constexpr unsigned kMaxWidth = 255;
constexpr unsigned kThreads = 256;      // of a block
constexpr unsigned kPlanePadWords = 1;  // see Tile

// Elements in a tile: a multiple of 32, so that tiles of bits are whole words.
__host__ __device__ constexpr unsigned tile_items(unsigned width) { return kTileBytes / width / 32 * 32; }
__host__ __device__ constexpr unsigned tile_bytes(unsigned width) { return tile_items(width) * width; }

// What was filtered as a whole: a Blosc block, or a chunk.
struct Block {
  const Byte* src = nullptr;            // the planes one after the other, then the bytes of no whole element
  const Byte* const* planes = nullptr;  // or each plane's place, in shared memory; bytes is then width * plane length
  const bool* skip = nullptr;           // with planes and no filter: those that are in dst already
  Byte* dst = nullptr;
  U64 bytes = 0;
  unsigned width = 1;  // 1..255
  Filter filter = Filter::kNone;
};

__device__ inline const Byte* plane_of(const Block& block, U64 plane_bytes, unsigned j) {
  return block.planes != nullptr ? block.planes[j] : block.src + j * plane_bytes;
}

template <class T>
__device__ inline unsigned skew(const T* at) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at));
}

// Four bytes of any alignment. REQUIRES: they, and up to 3 bytes before and 7 after `at`, may be read.
__device__ inline unsigned load4_inside(const Byte* at) {
  const unsigned shift = skew(at) % 4;
  const unsigned* words = reinterpret_cast<const unsigned*>(at - shift);
  return shift == 0 ? words[0] : __funnelshift_r(words[0], words[1], shift * 8);
}

// The bytes in [at, at + 4) that lie before `end`; the others are 0. REQUIRES: begin <= at < end.
__device__ inline unsigned load4(const Byte* at, const Byte* begin, const Byte* end) {
  const unsigned shift = skew(at) % 4;
  if (at - begin >= shift && end - at >= 8 - static_cast<int>(shift)) return load4_inside(at);
  unsigned word = 0;
  for (unsigned k = 0; k < 4 && at + k < end; ++k) word |= static_cast<unsigned>(at[k]) << (8 * k);
  return word;
}

// ---- copy ----

// Units of 16 bytes that begin 4 * kWords + shift bytes behind an aligned address.
template <unsigned kWords>
__device__ inline void copy_shifted(uint4* to, const uint4* from, U64 units, unsigned shift, unsigned thread,
                                    unsigned threads) {
  constexpr unsigned kBatch = 2;
  for (U64 i = thread; i < units; i += kBatch * threads) {
    uint4 low[kBatch], high[kBatch];
    HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < kBatch; ++k) {
      const U64 at = i + k * threads < units ? i + k * threads : units - 1;  // no branch keeps the loads apart
      low[k] = from[at];
      high[k] = from[at + 1];
    }
    HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < kBatch; ++k) {
      const U64 at = i + k * threads;
      if (at >= units) break;
      const unsigned w[8] = {low[k].x, low[k].y, low[k].z, low[k].w, high[k].x, high[k].y, high[k].z, high[k].w};
      to[at] = make_uint4(__funnelshift_r(w[kWords], w[kWords + 1], shift * 8),
                          __funnelshift_r(w[kWords + 1], w[kWords + 2], shift * 8),
                          __funnelshift_r(w[kWords + 2], w[kWords + 3], shift * 8),
                          __funnelshift_r(w[kWords + 3], w[kWords + 4], shift * 8));
    }
  }
}

// A thread block copies bytes of any alignment.
__device__ inline void block_copy(Byte* dst, const Byte* src, U64 bytes, unsigned thread, unsigned threads) {
  // The first bytes one by one until dst is aligned and the aligned 16 bytes that src lies in are inside.
  unsigned head = (16 - skew(dst) % 16) % 16;
  const unsigned off = (skew(src) + head) % 16;
  if (head < off) head += 16;
  if (bytes < head + 32) {
    for (U64 i = thread; i < bytes; i += threads) dst[i] = src[i];
    return;
  }
  for (unsigned i = thread; i < head; i += threads) dst[i] = src[i];
  uint4* to = reinterpret_cast<uint4*>(dst + head);
  const uint4* from = reinterpret_cast<const uint4*>(src + head - off);
  U64 units = (bytes - head) / 16;
  if (off == 0) {
    U64 i = thread;
    for (; i + 3 * threads < units; i += 4 * threads) {
      const uint4 a = from[i], b = from[i + threads], c = from[i + 2 * threads], d = from[i + 3 * threads];
      to[i] = a;
      to[i + threads] = b;
      to[i + 2 * threads] = c;
      to[i + 3 * threads] = d;
    }
    for (; i < units; i += threads) to[i] = from[i];
  } else {
    --units;  // its second aligned 16 bytes may reach over the end
    const unsigned shift = off % 4;
    switch (off / 4) {
      case 0:
        copy_shifted<0>(to, from, units, shift, thread, threads);
        break;
      case 1:
        copy_shifted<1>(to, from, units, shift, thread, threads);
        break;
      case 2:
        copy_shifted<2>(to, from, units, shift, thread, threads);
        break;
      default:
        copy_shifted<3>(to, from, units, shift, thread, threads);
    }
  }
  for (U64 i = head + units * 16 + thread; i < bytes; i += threads) dst[i] = src[i];
}

// Bytes [first, last) of a block whose parts lie at their planes.
__device__ inline void copy_parts(const Block& block, U64 first, U64 last, unsigned thread, unsigned threads) {
  if (block.planes == nullptr) {
    block_copy(block.dst + first, block.src + first, last - first, thread, threads);
    return;
  }
  const U64 part = block.bytes / block.width;
  for (unsigned j = 0; j < block.width; ++j) {
    const U64 begin = j * part > first ? j * part : first, end = (j + 1) * part < last ? (j + 1) * part : last;
    if (begin >= end || (block.skip != nullptr && block.skip[j])) continue;
    block_copy(block.dst + begin, block.planes[j] + (begin - j * part), end - begin, thread, threads);
  }
}

// ---- elements of 2, 4 and 8 bytes in registers ----

// 16 / kWidth bytes of each plane become 16 bytes of elements.
template <unsigned kWidth>
struct Part;  // what a thread takes of a plane
template <>
struct Part<2> {
  uint2 v;
};
template <>
struct Part<4> {
  unsigned v;
};
__device__ inline uint4 join(const Part<2>* p) {
  return make_uint4(__byte_perm(p[0].v.x, p[1].v.x, 0x5140), __byte_perm(p[0].v.x, p[1].v.x, 0x7362),
                    __byte_perm(p[0].v.y, p[1].v.y, 0x5140), __byte_perm(p[0].v.y, p[1].v.y, 0x7362));
}
__device__ inline uint4 join(const Part<4>* p) {
  const unsigned ab = __byte_perm(p[0].v, p[1].v, 0x5140), AB = __byte_perm(p[0].v, p[1].v, 0x7362);
  const unsigned cd = __byte_perm(p[2].v, p[3].v, 0x5140), CD = __byte_perm(p[2].v, p[3].v, 0x7362);
  return make_uint4(__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632), __byte_perm(AB, CD, 0x5410),
                    __byte_perm(AB, CD, 0x7632));
}
// REQUIRES: `at` is aligned to the part's size.
template <class P>
__device__ inline void take_aligned(P& part, const Byte* at) {
  part.v = *reinterpret_cast<const decltype(part.v)*>(at);
}
// REQUIRES: as load4_inside; two words.
__device__ inline void take(Part<2>& part, const Byte* at) {
  const unsigned s = skew(at) % 4;
  const unsigned* w = reinterpret_cast<const unsigned*>(at - s);
  const unsigned a = w[0], b = w[1], c = w[2];
  part.v = make_uint2(__funnelshift_r(a, b, s * 8), __funnelshift_r(b, c, s * 8));
}
__device__ inline void take(Part<4>& part, const Byte* at) {
  const unsigned s = skew(at) % 4;
  const unsigned* w = reinterpret_cast<const unsigned*>(at - s);
  const unsigned a = w[0], b = w[1];
  part.v = __funnelshift_r(a, b, s * 8);
}
template <unsigned kWidth>
__device__ inline void scalar_items(const Block& block, U64 items, U64 first, U64 last, unsigned thread,
                                    unsigned threads) {
  const unsigned bytes = static_cast<unsigned>(last - first) * kWidth;
  for (unsigned i = thread; i < bytes; i += threads) {
    block.dst[first * kWidth + i] = plane_of(block, items, i % kWidth)[first + i / kWidth];
  }
}

template <unsigned kWidth, bool kAligned>
__device__ inline void register_units(const Block& block, U64 items, U64 first, unsigned units, unsigned thread,
                                      unsigned threads) {
  constexpr unsigned kItems = 16 / kWidth;
  constexpr unsigned kBatch = 2;  // units a thread has under way
  const Byte* planes[kWidth];
  HEADRACE_SHUFFLE_UNROLL for (unsigned j = 0; j < kWidth; ++j) planes[j] = plane_of(block, items, j) + first;
  uint4* const to = reinterpret_cast<uint4*>(block.dst + first * kWidth);
  for (unsigned u = thread; u < units; u += kBatch * threads) {
    Part<kWidth> part[kBatch][kWidth];
    HEADRACE_SHUFFLE_UNROLL for (unsigned b = 0; b < kBatch; ++b) {
      const unsigned at = u + b * threads;
      if (at < units) {
        HEADRACE_SHUFFLE_UNROLL for (unsigned j = 0; j < kWidth; ++j) {
          if (kAligned) {
            take_aligned(part[b][j], planes[j] + at * kItems);
          } else {
            take(part[b][j], planes[j] + at * kItems);
          }
        }
      }
    }
    HEADRACE_SHUFFLE_UNROLL for (unsigned b = 0; b < kBatch; ++b) {
      if (u + b * threads < units) to[u + b * threads] = join(part[b]);
    }
  }
}

// Stores elements 4 u .. 4 u + 3 of 8 bytes, of which the lane has four bytes of each plane. Neighbours exchange
// halves, so that two of them always write 32 bytes side by side. REQUIRES: whole warps are here, of neighbours in u.
__device__ inline void store_eights(const Part<4> (&part)[8], uint4* to, unsigned u, unsigned units) {
  const bool odd = u % 2 != 0;
  const uint4 low = join(part), high = join(part + 4);  // word c: half of element c
  uint4 front = make_uint4(low.x, high.x, low.y, high.y), back = make_uint4(low.z, high.z, low.w, high.w);
  const uint4 mine = odd ? front : back;
  uint4 other;
  other.x = __shfl_xor_sync(0xffffffffu, mine.x, 1);
  other.y = __shfl_xor_sync(0xffffffffu, mine.y, 1);
  other.z = __shfl_xor_sync(0xffffffffu, mine.z, 1);
  other.w = __shfl_xor_sync(0xffffffffu, mine.w, 1);
  if (odd) {
    front = other;
  } else {
    back = other;
  }
  const unsigned slot = (u & ~1u) * 2 + (odd ? 1 : 0);
  if ((u & ~1u) < units) to[slot] = front;
  if ((u | 1u) < units) to[slot + 2] = back;
}

template <bool kAligned>
__device__ inline void register_units8(const Block& block, U64 items, U64 first, unsigned units, unsigned thread,
                                       unsigned threads) {
  uint4* const to = reinterpret_cast<uint4*>(block.dst + first * 8);
  for (unsigned base = thread & ~31u; base < units; base += threads) {
    const unsigned u = base + thread % 32;
    Part<4> part[8];
    if constexpr (kAligned) {
      HEADRACE_SHUFFLE_UNROLL for (unsigned j = 0; j < 8; ++j) {
        part[j].v = 0;
        if (u < units) take_aligned(part[j], plane_of(block, items, j) + first + 4 * u);
      }
    } else {
      const unsigned at = u < units ? u : units - 1;  // a branch would keep the two loads of each apart
      HEADRACE_SHUFFLE_UNROLL for (unsigned j = 0; j < 8; ++j)
          take(part[j], plane_of(block, items, j) + first + 4 * at);
    }
    store_eights(part, to, u, units);
  }
}

// Elements [first, last), slowly where dst is not aligned to the element's size.
template <unsigned kWidth>
__device__ inline void register_tile(const Block& block, U64 items, U64 first, U64 last, unsigned thread,
                                     unsigned threads) {
  constexpr unsigned kUnitBytes = kWidth == 8 ? 32 : 16, kItems = kUnitBytes / kWidth;
  if (skew(block.dst) % kWidth != 0) {
    scalar_items<kWidth>(block, items, first, last, thread, threads);
    return;
  }
  const unsigned head = (kUnitBytes - skew(block.dst + first * kWidth) % kUnitBytes) % kUnitBytes / kWidth;
  bool aligned = true;
  for (unsigned j = 0; j < kWidth; ++j) {
    aligned &= (skew(plane_of(block, items, j)) + first + head) % kItems == 0;
  }
  U64 begin = first + head, end = last;
  if (!aligned) {  // words are joined: those next to the edges of a plane are not whole
    while (begin < 4) begin += kItems;
    if (end + 12 > items) end = items < 12 ? 0 : items - 12;
  }
  const unsigned units = end > begin ? static_cast<unsigned>(end - begin) / kItems : 0;
  if (units == 0) {
    scalar_items<kWidth>(block, items, first, last, thread, threads);
    return;
  }
  end = begin + U64{units} * kItems;
  if constexpr (kWidth == 8) {
    if (aligned) {
      register_units8<true>(block, items, begin, units, thread, threads);
    } else {
      register_units8<false>(block, items, begin, units, thread, threads);
    }
  } else if (aligned) {
    register_units<kWidth, true>(block, items, begin, units, thread, threads);
  } else {
    register_units<kWidth, false>(block, items, begin, units, thread, threads);
  }
  scalar_items<kWidth>(block, items, first, begin, thread, threads);
  scalar_items<kWidth>(block, items, end, last, thread, threads);
}

// ---- everything else through shared memory ----

// x / d for x < 2^16, 0 < d < 2^16: exact, as the reciprocal is rounded up.
struct Divisor {
  unsigned reciprocal, divisor;
  __device__ explicit Divisor(unsigned d) : reciprocal(0xffffffffu / d + 1), divisor(d) {}
  __device__ unsigned quotient(unsigned x) const {
    return divisor == 1 ? x : static_cast<unsigned>((static_cast<U64>(x) * reciprocal) >> 32);
  }
};

// Transposes the four 8 x 8 squares of bits in eight words: bit e of byte c of row k becomes bit k of byte c of row e.
__device__ inline void transpose_bits(unsigned (&r)[8]) {
  HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 4; ++k) {
    const unsigned t = (r[k] >> 4 ^ r[k + 4]) & 0x0f0f0f0fu;
    r[k + 4] ^= t;
    r[k] ^= t << 4;
  }
  HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 8; k += 4) {
    HEADRACE_SHUFFLE_UNROLL for (unsigned i = k; i < k + 2; ++i) {
      const unsigned t = (r[i] >> 2 ^ r[i + 2]) & 0x33333333u;
      r[i + 2] ^= t;
      r[i] ^= t << 2;
    }
  }
  HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 8; k += 2) {
    const unsigned t = (r[k] >> 1 ^ r[k + 1]) & 0x55555555u;
    r[k + 1] ^= t;
    r[k] ^= t << 1;
  }
}

// Byte c of rows 0..3 side by side in word c.
__device__ inline uint4 transpose_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
  const unsigned ab = __byte_perm(a, b, 0x5140), AB = __byte_perm(a, b, 0x7362);
  const unsigned cd = __byte_perm(c, d, 0x5140), CD = __byte_perm(c, d, 0x7362);
  return make_uint4(__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632), __byte_perm(AB, CD, 0x5410),
                    __byte_perm(AB, CD, 0x7632));
}

// Planes of one tile in shared memory, as words, an odd number of words apart: bytes of one element lie in different
// banks. Where bits are transposed, eight neighbouring words come from one thread: they change places by the number of
// their row of 32, which keeps threads apart in the banks without mixing up whole rows.
template <bool kSwizzled>
struct Tile {
  unsigned* words;
  unsigned pitch;  // words from plane to plane
  __device__ unsigned place(unsigned j, unsigned w) const { return j * pitch + (kSwizzled ? w ^ (w >> 5 & 7) : w); }
  __device__ unsigned word(unsigned j, unsigned w) const { return words[place(j, w)]; }
  // The first plane's byte; the same of plane j is 4 * j * pitch bytes further.
  __device__ const Byte* item(unsigned item) const {
    return reinterpret_cast<const Byte*>(words) + 4 * place(0, item / 4) + item % 4;
  }
  __device__ Byte byte(unsigned j, unsigned i) const { return item(i)[4 * j * pitch]; }
};

// Elements [first, first + count) of all planes.
__device__ inline void fetch_bytes(const Block& block, U64 items, U64 first, unsigned count, const Tile<false>& tile,
                                   unsigned thread, unsigned threads) {
  constexpr unsigned kBatch = 8;  // words a thread has under way
  const unsigned words = (count + 3) / 4, total = words * block.width;
  const Divisor by_words(words);
  // Whether the aligned words around the four bytes at an element are inside the plane.
  const auto inside = [items](U64 item, unsigned shift) {
    return shift == 0 ? items - item >= 4 : item >= shift && items - item >= 8 - shift;
  };
  for (unsigned u = thread; u < total; u += kBatch * threads) {
    unsigned low[kBatch], high[kBatch], shift[kBatch], place[kBatch];
    HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < kBatch; ++k) {
      const unsigned x = u + k * threads;
      place[k] = ~0u;
      low[k] = high[k] = shift[k] = 0;
      if (x >= total) continue;
      const unsigned j = by_words.quotient(x), w = x - j * words;
      const Byte* at = plane_of(block, items, j) + first + 4 * w;
      shift[k] = skew(at) % 4;
      if (!inside(first + 4 * w, shift[k])) continue;
      place[k] = tile.place(j, w);
      const unsigned* from = reinterpret_cast<const unsigned*>(at - shift[k]);
      low[k] = from[0];
      high[k] = from[shift[k] != 0 ? 1 : 0];
    }
    HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < kBatch; ++k) {
      if (place[k] != ~0u) tile.words[place[k]] = __funnelshift_r(low[k], high[k], shift[k] * 8);
    }
  }
  // What was left out: at most the first word and the last two.
  for (unsigned x = thread; x < 3 * block.width; x += threads) {
    const unsigned j = x / 3, which = x % 3;
    if (which >= words) continue;
    const unsigned w = which == 0 ? 0 : words - which;
    const Byte* plane = plane_of(block, items, j);
    const Byte* at = plane + first + 4 * w;
    if (!inside(first + 4 * w, skew(at) % 4)) tile.words[tile.place(j, w)] = load4(at, plane, plane + items);
  }
}

// Eight rows of 32 elements as eight words of one plane.
__device__ inline void store_square(unsigned (&row)[8], const Tile<true>& tile, unsigned j, unsigned w) {
  transpose_bits(row);
  const uint4 low = transpose_bytes(row[0], row[1], row[2], row[3]);
  const uint4 high = transpose_bytes(row[4], row[5], row[6], row[7]);
  const unsigned out[8] = {low.x, high.x, low.y, high.y, low.z, high.z, low.w, high.w};
  HEADRACE_SHUFFLE_UNROLL for (unsigned i = 0; i < 8; ++i) tile.words[tile.place(j, 8 * w + i)] = out[i];
}

// The elements from `item` on, 32 at most, where a word of a row might reach over an edge.
__device__ inline void fetch_edge_bits(const Byte* plane, U64 items, U64 item, const Tile<true>& tile, unsigned j,
                                       unsigned w) {
  const U64 row_bytes = items / 8;
  unsigned row[8];
  HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 8; ++k) {
    const Byte* begin = plane + k * row_bytes;
    row[k] = load4(begin + item / 8, begin, begin + row_bytes);
  }
  store_square(row, tile, j, w);
}

// The same from bits. REQUIRES: items and count are multiples of 8, first of 32.
__device__ inline void fetch_bits(const Block& block, U64 items, U64 first, unsigned count, const Tile<true>& tile,
                                  unsigned thread, unsigned threads) {
  const U64 row_bytes = items / 8;
  const unsigned words = (count + 31) / 32;
  const Divisor by_words(words);
  for (unsigned u = thread; u < words * block.width; u += threads) {
    const unsigned j = by_words.quotient(u), w = u - j * words;
    const Byte* plane = plane_of(block, items, j);
    const U64 begin = first / 8 + 4 * w;
    const Byte* at = plane + begin;
    unsigned row[8];
    if (skew(at) % 4 == 0 && row_bytes % 4 == 0) {
      HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 8; ++k) {
        row[k] = *reinterpret_cast<const unsigned*>(at + k * row_bytes);
      }
    } else if (row_bytes - begin >= 8 && begin >= 3) {
      unsigned high[8];
      HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 8; ++k) {
        const Byte* from = at + k * row_bytes;
        const unsigned* there = reinterpret_cast<const unsigned*>(from - skew(from) % 4);
        row[k] = there[0];
        high[k] = there[1];
      }
      HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 8; ++k) {
        row[k] = __funnelshift_r(row[k], high[k], skew(at + k * row_bytes) % 4 * 8);
      }
    } else {
      fetch_edge_bits(plane, items, first + 32 * w, tile, j, w);
      continue;
    }
    store_square(row, tile, j, w);
  }
}

template <class Shared>
__device__ inline void take_tile(Part<2>& part, const Shared& tile, unsigned j, unsigned u) {
  part.v = make_uint2(tile.word(j, 2 * u), tile.word(j, 2 * u + 1));
}
template <class Shared>
__device__ inline void take_tile(Part<4>& part, const Shared& tile, unsigned j, unsigned u) {
  part.v = tile.word(j, u);
}

// Whole units of 16 bytes; the bytes done.
template <unsigned kWidth, class Shared>
__device__ inline unsigned store_units(const Shared& tile, unsigned count, Byte* dst, unsigned thread,
                                       unsigned threads) {
  uint4* const to = reinterpret_cast<uint4*>(dst);
  const unsigned units = count * kWidth / 16;
  for (unsigned u = thread; u < units; u += threads) {
    if constexpr (kWidth == 1) {
      to[u] =
          make_uint4(tile.word(0, 4 * u), tile.word(0, 4 * u + 1), tile.word(0, 4 * u + 2), tile.word(0, 4 * u + 3));
    } else if constexpr (kWidth == 8) {  // two elements
      const unsigned half = u % 2 == 0 ? 0x5410 : 0x7632;
      unsigned pair[4];
      HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 4; ++k) {
        pair[k] = __byte_perm(tile.word(2 * k, u / 2), tile.word(2 * k + 1, u / 2), half);
      }
      to[u] = make_uint4(__byte_perm(pair[0], pair[1], 0x6420), __byte_perm(pair[2], pair[3], 0x6420),
                         __byte_perm(pair[0], pair[1], 0x7531), __byte_perm(pair[2], pair[3], 0x7531));
    } else {
      Part<kWidth> part[kWidth];
      HEADRACE_SHUFFLE_UNROLL for (unsigned j = 0; j < kWidth; ++j) take_tile(part[j], tile, j, u);
      to[u] = join(part);
    }
  }
  return units * 16;
}

// `count` elements from shared planes to dst.
template <class Shared>
__device__ inline void store_items(const Shared& tile, unsigned width, unsigned count, Byte* dst, unsigned thread,
                                   unsigned threads) {
  const unsigned bytes = count * width, plane_bytes = 4 * tile.pitch;
  const Divisor by_width(width);
  const auto byte_at = [&](unsigned i) {
    const unsigned item = by_width.quotient(i);
    return tile.byte(i - item * width, item);
  };
  unsigned head = (16 - skew(dst) % 16) % 16, done = 0;
  if (head > bytes) head = bytes;
  if (head == 0 && (width == 1 || width == 2 || width == 4 || width == 8)) {
    done = width == 1   ? store_units<1>(tile, count, dst, thread, threads)
           : width == 2 ? store_units<2>(tile, count, dst, thread, threads)
           : width == 4 ? store_units<4>(tile, count, dst, thread, threads)
                        : store_units<8>(tile, count, dst, thread, threads);
  } else {
    const unsigned units = (bytes - head) / 16;
    const bool by_words = width % 4 == 0 && head % 4 == 0;  // then a word's bytes are of one element
    for (unsigned u = thread; u < units; u += threads) {
      unsigned word[4];
      const unsigned at = head + u * 16;
      unsigned item = by_width.quotient(at), j = at - item * width;
      if (by_words) {
        HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 4; ++k) {
          const Byte* from = tile.item(item) + j * plane_bytes;
          word[k] = __byte_perm(__byte_perm(from[0], from[plane_bytes], 0x0040),
                                __byte_perm(from[2 * plane_bytes], from[3 * plane_bytes], 0x0040), 0x5410);
          j += 4;
          if (j == width) {
            j = 0;
            ++item;
          }
        }
      } else {
        const Byte* from = tile.item(item) + j * plane_bytes;
        HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 4; ++k) {
          word[k] = 0;
          HEADRACE_SHUFFLE_UNROLL for (unsigned b = 0; b < 4; ++b) {
            word[k] |= static_cast<unsigned>(*from) << (8 * b);
            from += plane_bytes;
            if (++j == width) {
              j = 0;
              ++item;
              from = tile.item(item);
            }
          }
        }
      }
      *reinterpret_cast<uint4*>(dst + at) = make_uint4(word[0], word[1], word[2], word[3]);
    }
    for (unsigned i = thread; i < head; i += threads) dst[i] = byte_at(i);
    done = head + units * 16;
  }
  for (unsigned i = done + thread; i < bytes; i += threads) dst[i] = byte_at(i);
}

// ---- a tile ----

// The ways of undoing a filter.
enum class Path : std::uint32_t { kCopy, kTwo, kFour, kEight, kBits, kAny };
constexpr unsigned kPaths = 6;

// The fastest way that does every block of block_bytes, one after the other in dst.
__host__ __device__ inline Path path_of(Filter filter, unsigned width, const Byte* dst, U64 block_bytes) {
  if (filter == Filter::kNone || (filter == Filter::kBytes && width == 1)) return Path::kCopy;
  if (filter == Filter::kBits) return Path::kBits;
  if ((reinterpret_cast<std::uintptr_t>(dst) | block_bytes) % width != 0) return Path::kAny;
  return width == 2 ? Path::kTwo : width == 4 ? Path::kFour : width == 8 ? Path::kEight : Path::kAny;
}
template <Path kPath>
constexpr unsigned kSharedWords =
    kPath == Path::kBits || kPath == Path::kAny ? kTileBytes / 4 + kMaxWidth* kPlanePadWords : 1;
// Calls work(std::integral_constant<Path, path>()).
template <class Work>
void with_path(Path path, const Work& work) {
  switch (path) {
    case Path::kCopy:
      return work(std::integral_constant<Path, Path::kCopy>());
    case Path::kTwo:
      return work(std::integral_constant<Path, Path::kTwo>());
    case Path::kFour:
      return work(std::integral_constant<Path, Path::kFour>());
    case Path::kEight:
      return work(std::integral_constant<Path, Path::kEight>());
    case Path::kBits:
      return work(std::integral_constant<Path, Path::kBits>());
    case Path::kAny:
      return work(std::integral_constant<Path, Path::kAny>());
  }
}
// Thread blocks that a multiprocessor has at once, from the registers that a path needs.
constexpr unsigned blocks_per_unit(Path path) { return path == Path::kTwo || path == Path::kFour ? 6 : 5; }

// Bytes [tile * tile_bytes(width), ...) of the block, by a whole thread block. `shared` has kSharedWords<kPath>.
// REQUIRES: path_of() gave this path, if for an aligned dst; every thread of the block is here, with the same
// arguments.
template <Path kPath>
__device__ inline void unfilter_tile(const Block& block, U64 tile, unsigned* shared, unsigned thread,
                                     unsigned threads) {
  const unsigned width = block.width, most = tile_items(width);
  const U64 first_byte = tile * tile_bytes(width);
  if (first_byte >= block.bytes) return;
  const U64 last_byte = block.bytes - first_byte < tile_bytes(width) ? block.bytes : first_byte + tile_bytes(width);
  if constexpr (kPath == Path::kCopy) {
    copy_parts(block, first_byte, last_byte, thread, threads);
    return;
  }
  const U64 items = block.bytes <= 0xffffffffu ? static_cast<unsigned>(block.bytes) / width : block.bytes / width;
  if (kPath == Path::kBits && items % 8 != 0) {  // Blosc leaves such a block as it is
    copy_parts(block, first_byte, last_byte, thread, threads);
    return;
  }
  const U64 first = tile * most;
  const U64 last = items - first < most ? items : first + most;
  const U64 whole = items * width;
  if (last_byte > whole) {  // what is left after the last element; a block in planes has none
    const U64 from = first_byte > whole ? first_byte : whole;
    for (U64 i = from + thread; i < last_byte; i += threads) block.dst[i] = block.src[i];
  }
  if (first >= items) return;
  if constexpr (kPath == Path::kTwo) {
    register_tile<2>(block, items, first, last, thread, threads);
  } else if constexpr (kPath == Path::kFour) {
    register_tile<4>(block, items, first, last, thread, threads);
  } else if constexpr (kPath == Path::kEight) {
    register_tile<8>(block, items, first, last, thread, threads);
  } else {
    const unsigned count = static_cast<unsigned>(last - first);
    const Tile<kPath == Path::kBits> shared_tile{shared, most / 4 + kPlanePadWords};
    __syncthreads();  // the tile before has been read
    if constexpr (kPath == Path::kBits) {
      fetch_bits(block, items, first, count, shared_tile, thread, threads);
    } else {
      fetch_bytes(block, items, first, count, shared_tile, thread, threads);
    }
    __syncthreads();
    store_items(shared_tile, width, count, block.dst + first * width, thread, threads);
  }
}

// ---- outcomes ----

constexpr U64 kFine = ~U64{0};

// DecodeOutcome::pack() on the device.
__device__ inline U64 outcome_word(unsigned stage, U64 position, device::DecodeReason reason) {
  constexpr U64 kMost = (U64{1} << 44) - 1;
  return static_cast<U64>(stage & 15) << 52 | (position < kMost ? position : kMost) << 8 | static_cast<U64>(reason);
}
// The first error of a chunk wins.
__device__ inline void lower_outcome(std::uint64_t* outcomes, unsigned chunk, U64 word) {
  atomicMin(reinterpret_cast<U64*>(outcomes + chunk), word);
}

// This thread block's share [first, last) of `total` tiles: neighbours, so that what is looked up once serves many.
struct Share {
  U64 first, last;
};
__device__ inline Share share_of(U64 total, unsigned index, unsigned count) {
  const U64 each = total / count, more = total % count;
  const U64 first = index * each + (index < more ? index : more);
  return {first, first + each + (index < more ? 1 : 0)};
}

// ---- numcodecs' shuffle: each chunk is one block ----

struct ChunksJob {
  device::gpu::Chunk* chunks = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned count = 0;
  U64 tiles_per_chunk = 1;
  unsigned width = 1;
  bool exact = true;
  unsigned stage = 0;
};

template <Path kPath>
__device__ inline void unshuffle_chunks_body(const ChunksJob& job, unsigned* shared) {
  using device::DecodeReason;
  const Share share = share_of(job.count * job.tiles_per_chunk, blockIdx.x, gridDim.x);
  for (U64 t = share.first; t < share.last; ++t) {
    const unsigned i = static_cast<unsigned>(t / job.tiles_per_chunk);
    const U64 tile = t - i * job.tiles_per_chunk;
    const device::gpu::Chunk chunk = job.chunks[i];
    // Each tile comes to the same verdict: it must not depend on what the first one writes.
    const DecodeReason wrong = chunk.src_bytes == 0 ? DecodeReason::kTruncated
                               : (job.exact ? chunk.src_bytes != chunk.dst_bytes : chunk.src_bytes > chunk.dst_bytes)
                                   ? DecodeReason::kWrongSize
                               : job.width > 1 && chunk.src_bytes % job.width != 0 ? DecodeReason::kLength
                                                                                   : DecodeReason::kNone;
    if (wrong != DecodeReason::kNone) {
      if (tile == 0 && threadIdx.x == 0) lower_outcome(job.outcomes, i, outcome_word(job.stage, 0, wrong));
      continue;
    }
    if (job.outcomes[i] != kFine) continue;
    if (tile == 0 && threadIdx.x == 0 && !job.exact) job.chunks[i].dst_bytes = chunk.src_bytes;
    Block block;
    block.src = chunk.src;
    block.dst = chunk.dst;
    block.bytes = chunk.src_bytes;
    block.width = job.width;
    block.filter = Filter::kBytes;
    unfilter_tile<kPath>(block, tile, shared, threadIdx.x, blockDim.x);
  }
}

}  // namespace headrace::codec::gpu::shuffle
