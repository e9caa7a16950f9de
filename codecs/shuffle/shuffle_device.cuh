// Device code of the un-shuffles: bytes, Blosc's bits, and the plain copy of what no filter touched.
//
// Included by shuffle_stage.cu and by Blosc's, and by tests that run it on the CPU. What the filters do is defined by
// src/codec/unshuffle.h: plane j holds byte j of every element; rows 8 j .. 8 j + 7 hold its bits.
//
// A thread block does a tile of at most 16 KiB. Elements of 2, 4 and 8 bytes are joined in registers, straight from
// the planes to 16-byte stores. All else goes through shared memory: planes are fetched in words, bits transposed eight
// rows at a time, and the elements put together from there.
//
// Planes may have any alignment and dst too. No load reaches over the edge of a plane, not even within a word: the
// page behind may not be there.
#pragma once

#include <cstdint>

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
constexpr unsigned kThreads = 256;  // of a block
constexpr unsigned kPlanePadWords = 1;  // see Tile
constexpr unsigned kSharedWords = kTileBytes / 4 + kMaxWidth * kPlanePadWords;

// Thread blocks of a launch over tiles: all that can run at once.
constexpr std::uint64_t blocks_at_once(int multiprocessors) { return static_cast<std::uint64_t>(multiprocessors) * 8; }

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

// A thread block copies bytes of any alignment.
__device__ inline void block_copy(Byte* dst, const Byte* src, U64 bytes, unsigned thread, unsigned threads) {
  // The first bytes one by one until dst is aligned and, where words are to be joined, the word before is inside.
  unsigned head = (16 - skew(dst) % 16) % 16;
  const unsigned shift = (skew(src) + head) % 4;
  if (shift != 0 && head < 4) head += 16;
  if (bytes < head + 32) {
    for (U64 i = thread; i < bytes; i += threads) dst[i] = src[i];
    return;
  }
  for (unsigned i = thread; i < head; i += threads) dst[i] = src[i];
  const Byte* from = src + head;
  uint4* to = reinterpret_cast<uint4*>(dst + head);
  const U64 left = bytes - head;
  U64 units = left / 16;
  if (skew(from) % 16 == 0) {
    const uint4* words = reinterpret_cast<const uint4*>(from);
    U64 i = thread;
    for (; i + 3 * threads < units; i += 4 * threads) {
      const uint4 a = words[i], b = words[i + threads], c = words[i + 2 * threads], d = words[i + 3 * threads];
      to[i] = a;
      to[i + threads] = b;
      to[i + 2 * threads] = c;
      to[i + 3 * threads] = d;
    }
    for (; i < units; i += threads) to[i] = words[i];
  } else {
    // 16 bytes are in five words, of which the last may reach over the end: the last unit is left to the loop below.
    if (shift != 0) --units;
    const unsigned* words = reinterpret_cast<const unsigned*>(from - shift);
    for (U64 i = thread; i < units; i += threads) {
      const unsigned* w = words + 4 * i;
      const unsigned a = w[0], b = w[1], c = w[2], d = w[3];
      if (shift == 0) {
        to[i] = make_uint4(a, b, c, d);
      } else {
        const unsigned e = w[4], s = shift * 8;
        to[i] = make_uint4(__funnelshift_r(a, b, s), __funnelshift_r(b, c, s), __funnelshift_r(c, d, s),
                           __funnelshift_r(d, e, s));
      }
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
template <>
struct Part<8> {
  unsigned short v;
};
template <>
struct Part<16> {
  Byte v;
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
__device__ inline uint4 join(const Part<8>* p) {
  unsigned pair[4];
  HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 4; ++k) {
    pair[k] = __byte_perm(p[2 * k].v, p[2 * k + 1].v, 0x5410);
  }
  return make_uint4(__byte_perm(pair[0], pair[1], 0x6420), __byte_perm(pair[2], pair[3], 0x6420),
                    __byte_perm(pair[0], pair[1], 0x7531), __byte_perm(pair[2], pair[3], 0x7531));
}
__device__ inline uint4 join(const Part<16>* p) {
  unsigned w[4];
  HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 4; ++k) {
    w[k] = __byte_perm(__byte_perm(p[4 * k].v, p[4 * k + 1].v, 0x0040),
                       __byte_perm(p[4 * k + 2].v, p[4 * k + 3].v, 0x0040), 0x5410);
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
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
__device__ inline void take(Part<8>& part, const Byte* at) {
  part.v = static_cast<unsigned short>(at[0] | at[1] << 8);
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

// Elements [first, last). REQUIRES: dst is aligned to the element's size.
template <unsigned kWidth>
__device__ inline void register_tile(const Block& block, U64 items, U64 first, U64 last, unsigned thread,
                                     unsigned threads) {
  constexpr unsigned kItems = 16 / kWidth;
  const unsigned head = (16 - skew(block.dst + first * kWidth) % 16) % 16 / kWidth;
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
  if (aligned) {
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

// Planes of one tile in shared memory, as words. Eight neighbouring words change places by the number of their row of
// 32, so that neither whole rows nor every eighth word (which is how bits arrive) meet in one bank; planes are an odd
// number of words apart for the same reason.
struct Tile {
  unsigned* words;
  unsigned pitch;  // words from plane to plane
  __device__ unsigned place(unsigned j, unsigned w) const { return j * pitch + (w ^ (w >> 5 & 7)); }
  __device__ unsigned word(unsigned j, unsigned w) const { return words[place(j, w)]; }
  __device__ Byte byte(unsigned j, unsigned item) const {
    return reinterpret_cast<const Byte*>(words)[4 * place(j, item / 4) + item % 4];
  }
};

// Elements [first, first + count) of all planes.
__device__ inline void fetch_bytes(const Block& block, U64 items, U64 first, unsigned count, const Tile& tile,
                                   unsigned thread, unsigned threads) {
  const unsigned words = (count + 3) / 4;
  const Divisor by_words(words);
  for (unsigned u = thread; u < words * block.width; u += threads) {
    const unsigned j = by_words.quotient(u), w = u - j * words;
    const Byte* plane = plane_of(block, items, j);
    tile.words[tile.place(j, w)] = load4(plane + first + 4 * w, plane, plane + items);
  }
}

// The same from bits. REQUIRES: items and count are multiples of 8, first of 32.
__device__ inline void fetch_bits(const Block& block, U64 items, U64 first, unsigned count, const Tile& tile,
                                  unsigned thread, unsigned threads) {
  const U64 row_bytes = items / 8;
  const unsigned words = (count + 31) / 32;
  const Divisor by_words(words);
  for (unsigned u = thread; u < words * block.width; u += threads) {
    const unsigned j = by_words.quotient(u), w = u - j * words;
    const Byte* plane = plane_of(block, items, j);
    const Byte* at = plane + first / 8 + 4 * w;
    const U64 left = row_bytes - (first / 8 + 4 * w);
    unsigned row[8];
    HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 8; ++k) {
      // Over the edge of a row lie bytes of the next, which are this plane's too.
      const Byte* begin = plane + k * row_bytes;
      row[k] = left >= 4 ? load4(at + k * row_bytes, plane, plane + items)
                         : load4(at + k * row_bytes, begin, begin + row_bytes);
    }
    transpose_bits(row);
    const uint4 low = transpose_bytes(row[0], row[1], row[2], row[3]);
    const uint4 high = transpose_bytes(row[4], row[5], row[6], row[7]);
    const unsigned out[8] = {low.x, high.x, low.y, high.y, low.z, high.z, low.w, high.w};
    HEADRACE_SHUFFLE_UNROLL for (unsigned i = 0; i < 8; ++i) tile.words[tile.place(j, 8 * w + i)] = out[i];
  }
}

__device__ inline void take_tile(Part<2>& part, const Tile& tile, unsigned j, unsigned u) {
  part.v = make_uint2(tile.word(j, 2 * u), tile.word(j, 2 * u + 1));
}
__device__ inline void take_tile(Part<4>& part, const Tile& tile, unsigned j, unsigned u) { part.v = tile.word(j, u); }
__device__ inline void take_tile(Part<8>& part, const Tile& tile, unsigned j, unsigned u) {
  part.v = static_cast<unsigned short>(tile.word(j, u / 2) >> (u % 2 * 16));
}
__device__ inline void take_tile(Part<16>& part, const Tile& tile, unsigned j, unsigned u) {
  part.v = tile.byte(j, u);
}

// Whole units of 16 bytes; the bytes done.
template <unsigned kWidth>
__device__ inline unsigned store_units(const Tile& tile, unsigned count, Byte* dst, unsigned thread,
                                       unsigned threads) {
  const unsigned units = count * kWidth / 16;
  for (unsigned u = thread; u < units; u += threads) {
    Part<kWidth> part[kWidth];
    HEADRACE_SHUFFLE_UNROLL for (unsigned j = 0; j < kWidth; ++j) take_tile(part[j], tile, j, u);
    reinterpret_cast<uint4*>(dst)[u] = join(part);
  }
  return units * 16;
}

// `count` elements from shared planes to dst.
__device__ inline void store_items(const Tile& tile, unsigned width, unsigned count, Byte* dst, unsigned thread,
                                   unsigned threads) {
  const unsigned bytes = count * width;
  const Divisor by_width(width);
  const auto byte_at = [&](unsigned i) {
    const unsigned item = by_width.quotient(i);
    return tile.byte(i - item * width, item);
  };
  unsigned head = (16 - skew(dst) % 16) % 16, done = 0;
  if (head > bytes) head = bytes;
  if (head == 0 && (width == 2 || width == 4 || width == 8 || width == 16)) {
    done = width == 2   ? store_units<2>(tile, count, dst, thread, threads)
           : width == 4 ? store_units<4>(tile, count, dst, thread, threads)
           : width == 8 ? store_units<8>(tile, count, dst, thread, threads)
                        : store_units<16>(tile, count, dst, thread, threads);
  } else {
    const unsigned units = (bytes - head) / 16;
    for (unsigned u = thread; u < units; u += threads) {
      unsigned word[4];
      const unsigned at = head + u * 16;
      unsigned item = by_width.quotient(at), j = at - item * width;
      HEADRACE_SHUFFLE_UNROLL for (unsigned k = 0; k < 4; ++k) {
        word[k] = 0;
        HEADRACE_SHUFFLE_UNROLL for (unsigned b = 0; b < 4; ++b) {
          word[k] |= static_cast<unsigned>(tile.byte(j, item)) << (8 * b);
          if (++j == width) {
            j = 0;
            ++item;
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

// Bytes [tile * tile_bytes(width), ...) of the block, by a whole thread block. `shared` has kSharedWords.
// REQUIRES: every thread of the block is here, with the same arguments.
__device__ inline void unfilter_tile(const Block& block, U64 tile, unsigned* shared, unsigned thread,
                                     unsigned threads) {
  const unsigned width = block.width, most = tile_items(width);
  const U64 first_byte = tile * tile_bytes(width);
  if (first_byte >= block.bytes) return;
  const U64 items = block.bytes <= 0xffffffffu ? static_cast<unsigned>(block.bytes) / width : block.bytes / width;
  const U64 last_byte = block.bytes - first_byte < tile_bytes(width) ? block.bytes : first_byte + tile_bytes(width);
  const bool copied = block.filter == Filter::kNone || (block.filter == Filter::kBytes && width == 1) ||
                      (block.filter == Filter::kBits && items % 8 != 0);  // Blosc leaves such a block as it is
  if (copied) {
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
  if (block.filter == Filter::kBytes && (width == 2 || width == 4 || width == 8) &&
      skew(block.dst) % width == 0) {
    switch (width) {
      case 2:
        register_tile<2>(block, items, first, last, thread, threads);
        break;
      case 4:
        register_tile<4>(block, items, first, last, thread, threads);
        break;
      default:
        register_tile<8>(block, items, first, last, thread, threads);
    }
    return;
  }
  const unsigned count = static_cast<unsigned>(last - first);
  const Tile shared_tile{shared, most / 4 + kPlanePadWords};
  __syncthreads();  // the tile before has been read
  if (block.filter == Filter::kBits) {
    fetch_bits(block, items, first, count, shared_tile, thread, threads);
  } else {
    fetch_bytes(block, items, first, count, shared_tile, thread, threads);
  }
  __syncthreads();
  store_items(shared_tile, width, count, block.dst + first * width, thread, threads);
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
    unfilter_tile(block, tile, shared, threadIdx.x, blockDim.x);
  }
}

}  // namespace headrace::codec::gpu::shuffle
