// Un-shuffles elements of 2, 4 and 8 bytes in registers. Device code without a CUDA header.
#pragma once

#include "shuffle_block_device.cuh"

namespace headrace::codec::gpu::shuffle {

// A thread's share of a plane: 16 / kWidth bytes of each plane become 16 bytes of elements.
template <unsigned kWidth>
struct Part;
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
// REQUIRES: the conditions of load4_inside, for two words.
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
  constexpr unsigned kBatch = 2;  // units in flight per thread
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

// Stores elements 4 u .. 4 u + 3 of 8 bytes, of which the lane holds four bytes of each plane. Neighbouring lanes
// exchange halves, so that each pair writes 32 contiguous bytes. REQUIRES: whole warps call this, with consecutive u.
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
      const unsigned at = u < units ? u : units - 1;  // a branch would separate the two loads
      HEADRACE_SHUFFLE_UNROLL for (unsigned j = 0; j < 8; ++j)
          take(part[j], plane_of(block, items, j) + first + 4 * at);
    }
    store_eights(part, to, u, units);
  }
}

// Un-shuffles elements [first, last). Slow if dst is not aligned to the element size.
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
  if (!aligned) {  // unaligned words are joined from two, which must lie inside the plane, so the edges are excluded
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

}  // namespace headrace::codec::gpu::shuffle
