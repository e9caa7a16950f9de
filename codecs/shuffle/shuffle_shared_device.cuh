// Un-shuffles bits, and bytes of elements of any width, through shared memory. Device code without a CUDA header.
#pragma once

#include "shuffle_registers_device.cuh"

namespace headrace::codec::gpu::shuffle {

// x / d for x < 2^16, 0 < d < 2^16: exact, since the reciprocal is rounded up.
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

// Word c of the result holds byte c of all four rows.
__device__ inline uint4 transpose_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
  const unsigned ab = __byte_perm(a, b, 0x5140), AB = __byte_perm(a, b, 0x7362);
  const unsigned cd = __byte_perm(c, d, 0x5140), CD = __byte_perm(c, d, 0x7362);
  return make_uint4(__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632), __byte_perm(AB, CD, 0x5410),
                    __byte_perm(AB, CD, 0x7632));
}

// Planes of one tile in shared memory, as words. The pitch is odd, so bytes of one element lie in different banks. When
// bits are transposed, one thread writes eight neighbouring words; each row of 32 words is then permuted by XOR with
// the row's number modulo 8, which keeps threads in different banks.
template <bool kSwizzled>
struct Tile {
  unsigned* words;
  unsigned pitch;  // words from plane to plane
  __device__ unsigned place(unsigned j, unsigned w) const { return j * pitch + (kSwizzled ? w ^ (w >> 5 & 7) : w); }
  __device__ unsigned word(unsigned j, unsigned w) const { return words[place(j, w)]; }
  // The byte of the first plane; that of plane j is 4 * j * pitch bytes further.
  __device__ const Byte* item(unsigned item) const {
    return reinterpret_cast<const Byte*>(words) + 4 * place(0, item / 4) + item % 4;
  }
  __device__ Byte byte(unsigned j, unsigned i) const { return item(i)[4 * j * pitch]; }
};

// Loads elements [first, first + count) of all planes.
__device__ inline void fetch_bytes(const Block& block, U64 items, U64 first, unsigned count, const Tile<false>& tile,
                                   unsigned thread, unsigned threads) {
  constexpr unsigned kBatch = 8;  // words in flight per thread
  const unsigned words = (count + 3) / 4, total = words * block.width;
  const Divisor by_words(words);
  // Whether the aligned words around the four bytes at an element lie inside the plane.
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
  // The remaining words: at most the first and the last two.
  for (unsigned x = thread; x < 3 * block.width; x += threads) {
    const unsigned j = x / 3, which = x % 3;
    if (which >= words) continue;
    const unsigned w = which == 0 ? 0 : words - which;
    const Byte* plane = plane_of(block, items, j);
    const Byte* at = plane + first + 4 * w;
    if (!inside(first + 4 * w, skew(at) % 4)) tile.words[tile.place(j, w)] = load4(at, plane, plane + items);
  }
}

// Stores eight rows of 32 elements as eight words of one plane.
__device__ inline void store_square(unsigned (&row)[8], const Tile<true>& tile, unsigned j, unsigned w) {
  transpose_bits(row);
  const uint4 low = transpose_bytes(row[0], row[1], row[2], row[3]);
  const uint4 high = transpose_bytes(row[4], row[5], row[6], row[7]);
  const unsigned out[8] = {low.x, high.x, low.y, high.y, low.z, high.z, low.w, high.w};
  HEADRACE_SHUFFLE_UNROLL for (unsigned i = 0; i < 8; ++i) tile.words[tile.place(j, 8 * w + i)] = out[i];
}

// Loads the elements from `item` on, at most 32, where a word of a row might cross an edge.
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

// The same for bits. REQUIRES: items and count are multiples of 8, first of 32.
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

// Stores whole units of 16 bytes. Returns the number of bytes stored.
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

// Stores `count` elements from the planes in shared memory to dst.
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
    const bool by_words = width % 4 == 0 && head % 4 == 0;  // then a word lies within one element
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

}  // namespace headrace::codec::gpu::shuffle
