// Device code of copies and assembly. Included by copy_kernels.cu, and by a test that runs it on the CPU.
//
// Every access lies inside the piece or box it was given: no aligned load reaches over an edge, so memory that ends at
// a page or an allocation is safe, and memcheck is silent for the right reason.
#pragma once

#include "work_items.h"

#ifdef __CUDACC__
#define HEADRACE_UNROLL _Pragma("unroll")
#else
#define HEADRACE_UNROLL
#endif

namespace headrace::device::cuda {

using Byte = unsigned char;
using U64 = unsigned long long;

__device__ inline unsigned lane_of(unsigned thread) { return thread % 32; }

template <class T>
__device__ inline U64 copy_congruent(Byte* dst, const Byte* src, U64 bytes, unsigned lane) {
  // Four loads are under way before the first store: over the bus, a load takes a microsecond or two.
  const U64 n = bytes / sizeof(T);
  const T* from = reinterpret_cast<const T*>(src);
  T* to = reinterpret_cast<T*>(dst);
  U64 i = lane;
  for (; i + 96 < n; i += 128) {
    const T a = from[i], b = from[i + 32], c = from[i + 64], d = from[i + 96];
    to[i] = a;
    to[i + 32] = b;
    to[i + 64] = c;
    to[i + 96] = d;
  }
  for (; i < n; i += 32) to[i] = from[i];
  return n * sizeof(T);
}

// One warp copies bytes of any alignment.
__device__ inline void warp_copy(Byte* dst, const Byte* src, U64 bytes, unsigned lane) {
  if (bytes < 64) {
    for (U64 i = lane; i < bytes; i += 32) dst[i] = src[i];
    return;
  }
  const unsigned head = static_cast<unsigned>((16 - reinterpret_cast<std::uintptr_t>(dst) % 16) % 16);
  if (lane < head) dst[lane] = src[lane];
  dst += head;
  src += head;
  bytes -= head;
  const unsigned skew = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(src) % 16);
  U64 done = 0;
  if (skew == 0) {
    done = copy_congruent<uint4>(dst, src, bytes, lane);
  } else if (skew % 8 == 0) {
    done = copy_congruent<uint2>(dst, src, bytes, lane);
  } else if (skew % 4 == 0) {
    done = copy_congruent<unsigned>(dst, src, bytes, lane);
  } else {
    // Aligned words, each destination word joined from two of them. The first four bytes go singly, so that the first
    // aligned word does not begin before the source.
    if (lane < 4) dst[lane] = src[lane];
    dst += 4;
    src += 4;
    bytes -= 4;
    const unsigned shift = skew % 4;
    const unsigned* from = reinterpret_cast<const unsigned*>(src - shift);
    unsigned* to = reinterpret_cast<unsigned*>(dst);
    const U64 n = (bytes + shift) / 4 - 1;  // words 0..n of `from` end inside the source
    for (U64 base = 0; base < n; base += 256) {
      unsigned word[9];
      HEADRACE_UNROLL for (unsigned u = 0; u < 8; ++u) {
        const U64 i = base + u * 32 + lane;
        word[u] = i <= n ? from[i] : 0;
      }
      word[8] = lane == 0 && base + 256 <= n ? from[base + 256] : 0;
      HEADRACE_UNROLL for (unsigned u = 0; u < 8; ++u) {
        const U64 i = base + u * 32 + lane;
        unsigned next = __shfl_down_sync(0xffffffffu, word[u], 1);
        const unsigned after = __shfl_sync(0xffffffffu, word[u + 1], 0);
        if (lane == 31) next = after;
        if (i < n) to[i] = __funnelshift_r(word[u], next, shift * 8);
      }
    }
    done = n * 4;
  }
  if (lane < bytes - done) dst[done + lane] = src[done + lane];
}

// A warp asks for its next descriptor before it moves the bytes of this one: they lie in host memory.
__device__ inline void move_pieces_body(const PieceItem* pieces, unsigned count) {
  const unsigned lane = lane_of(threadIdx.x);
  const unsigned warps = gridDim.x * (blockDim.x / 32);
  unsigned i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (i >= count) return;
  PieceItem piece = pieces[i];
  for (;;) {
    const unsigned next = i + warps;
    PieceItem after = piece;
    if (next < count) after = pieces[next];
    warp_copy(piece.dst, piece.src, piece.bytes, lane);
    if (next >= count) return;
    i = next;
    piece = after;
  }
}

// ---- assembly ----

__device__ inline unsigned swap32(unsigned v, unsigned width) {
  return width == 2 ? __byte_perm(v, 0, 0x2301) : __byte_perm(v, 0, 0x0123);
}
__device__ inline Byte swap_word(Byte v, unsigned) { return v; }
__device__ inline unsigned short swap_word(unsigned short v, unsigned) {
  return static_cast<unsigned short>((v >> 8) | (v << 8));
}
__device__ inline unsigned swap_word(unsigned v, unsigned width) { return swap32(v, width); }
__device__ inline uint2 swap_word(uint2 v, unsigned width) {
  const unsigned x = swap32(v.x, width), y = swap32(v.y, width);
  return width == 8 ? make_uint2(y, x) : make_uint2(x, y);
}
__device__ inline uint4 swap_word(uint4 v, unsigned width) {
  const unsigned x = swap32(v.x, width), y = swap32(v.y, width), z = swap32(v.z, width), w = swap32(v.w, width);
  if (width == 16) return make_uint4(w, z, y, x);
  if (width == 8) return make_uint4(y, x, w, z);
  return make_uint4(x, y, z, w);
}

struct Offsets {
  long long src = 0, dst = 0;
};

// Where the element with this index in the first `dims` dimensions lies.
template <class Index>
__device__ inline Offsets locate_as(const BoxItem& box, Index index, int dims) {
  Offsets out;
  for (int d = dims - 1; d > 0; --d) {
    const Index extent = static_cast<Index>(box.extent[d]);
    const Index rest = index / extent;
    const long long i = static_cast<long long>(index - rest * extent);
    out.src += i * box.src_stride[d];
    out.dst += i * box.dst_stride[d];
    index = rest;
  }
  if (dims > 0) {
    out.src += static_cast<long long>(index) * box.src_stride[0];
    out.dst += static_cast<long long>(index) * box.dst_stride[0];
  }
  return out;
}
// Division in 64 bits costs several times that in 32, and hardly any box needs it. `total` bounds every index and
// extent.
__device__ inline Offsets locate(const BoxItem& box, U64 index, int dims, U64 total) {
  return total <= 0xffffffffull ? locate_as<unsigned>(box, static_cast<unsigned>(index), dims)
                                : locate_as<U64>(box, index, dims);
}

template <class T>
__device__ inline T load_word(const BoxItem& box, const Byte* src, const Byte* pattern, U64 last_index) {
  if (box.src == nullptr) {
    return reinterpret_cast<const T*>(pattern)[box.pattern_words == 1 ? 0 : last_index % box.pattern_words];
  }
  const T v = *reinterpret_cast<const T*>(src);
  return box.swap_width > 1 ? swap_word(v, box.swap_width) : v;
}

template <class T>
__device__ inline void row_segment(const BoxItem& box, Byte* dst, const Byte* src, const Byte* pattern, U64 first,
                                   unsigned words, unsigned lane) {
  unsigned i = lane;
  if (box.src != nullptr) {
    // The item lies in memory that a store might change, for all the compiler knows: its width is read once.
    const unsigned width = box.swap_width;
    const T* from = reinterpret_cast<const T*>(src);
    T* to = reinterpret_cast<T*>(dst);
    for (; i + 96 < words; i += 128) {
      T v[4];
      HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) v[u] = from[i + u * 32];
      HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) to[i + u * 32] = width > 1 ? swap_word(v[u], width) : v[u];
    }
    for (; i < words; i += 32) to[i] = width > 1 ? swap_word(from[i], width) : from[i];
    return;
  }
  for (; i + 96 < words; i += 128) {
    T v[4];
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) v[u] =
        load_word<T>(box, src + (i + u * 32) * sizeof(T), pattern, first + i + u * 32);
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) reinterpret_cast<T*>(dst)[i + u * 32] = v[u];
  }
  for (; i < words; i += 32) {
    reinterpret_cast<T*>(dst)[i] = load_word<T>(box, src + i * sizeof(T), pattern, first + i);
  }
}

template <class T>
__device__ inline void rows_unit(const BoxItem& box, U64 unit, const Byte* pattern) {
  const unsigned lane = lane_of(threadIdx.x), warps = blockDim.x / 32;
  const int inner = static_cast<int>(box.rank) - 1;
  const U64 run = box.extent[inner] * sizeof(T);
  for (unsigned k = threadIdx.x / 32; k < box.per_unit; k += warps) {
    const U64 index = unit * box.per_unit + k;
    if (index >= box.count) return;
    U64 row = index, segment = 0;
    if (box.segments > 1) {
      row = index / box.segments;
      segment = index - row * box.segments;
    }
    const Offsets at = locate(box, row, inner, box.count);
    const U64 begin = segment * kRowSegmentBytes;
    const U64 bytes = run - begin < kRowSegmentBytes ? run - begin : kRowSegmentBytes;
    Byte* dst = box.dst + at.dst + begin;
    if (box.src != nullptr && box.swap_width <= 1 && sizeof(T) < 16) {
      warp_copy(dst, box.src + at.src + begin, bytes, lane);
    } else {
      const Byte* src = box.src == nullptr ? nullptr : box.src + at.src + begin;
      row_segment<T>(box, dst, src, pattern, begin / sizeof(T), static_cast<unsigned>(bytes / sizeof(T)), lane);
    }
  }
}

template <class T>
__device__ inline void words_unit(const BoxItem& box, U64 unit, const Byte* pattern) {
  const int rank = static_cast<int>(box.rank);
  const U64 inner = box.extent[rank - 1];
  const U64 first = unit * kWordsPerUnit;
  const U64 left = box.count - first;
  const unsigned words = left < kWordsPerUnit ? static_cast<unsigned>(left) : kWordsPerUnit;
  for (unsigned base = threadIdx.x; base < words; base += 4 * blockDim.x) {
    T v[4];
    Byte* to[4];
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
      const unsigned i = base + u * blockDim.x;
      if (i >= words) continue;
      const Offsets at = locate(box, first + i, rank, box.count);
      to[u] = box.dst + at.dst;
      const U64 last = box.pattern_words == 1 ? 0 : (first + i) % inner;
      v[u] = load_word<T>(box, box.src + at.src, pattern, last);
    }
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
      if (base + u * blockDim.x < words) *reinterpret_cast<T*>(to[u]) = v[u];
    }
  }
}

inline constexpr unsigned kTileBytes = 32 * 33 * 16;
static_assert(tile_side(1) == 64 && tile_side(2) == 64 && tile_side(4) == 32, "tile_unit() has the same sides");

template <class T>
__device__ inline void tile_unit(const BoxItem& box, U64 unit, Byte* shared) {
  // The pitch makes a column of the tile fall into 32 different banks.
  constexpr unsigned kSide = sizeof(T) >= 4 ? 32 : 64;
  constexpr unsigned kPitch = sizeof(T) == 1 ? 68 : sizeof(T) == 2 ? 66 : 33;
  static_assert(kSide * kPitch * sizeof(T) <= kTileBytes);
  T* tile = reinterpret_cast<T*>(shared);
  const int column_dim = static_cast<int>(box.rank) - 1, row_dim = column_dim - 1;
  const U64 across = (box.extent[column_dim] + kSide - 1) / kSide, down = (box.extent[row_dim] + kSide - 1) / kSide;
  const U64 plane = unit / (across * down), in_plane = unit - plane * across * down;
  const U64 tile_row = in_plane / across, tile_column = in_plane - tile_row * across;
  const Offsets at = locate(box, plane, row_dim, ~0ull);
  const U64 row = tile_row * kSide, column = tile_column * kSide;
  const U64 rows = box.extent[row_dim] - row, columns = box.extent[column_dim] - column;
  const Byte* src = box.src + at.src + static_cast<long long>(row) * box.src_stride[row_dim] +
                    static_cast<long long>(column) * box.src_stride[column_dim];
  Byte* dst = box.dst + at.dst + static_cast<long long>(row) * box.dst_stride[row_dim] +
              static_cast<long long>(column) * box.dst_stride[column_dim];
  const unsigned x = threadIdx.x % kSide, step = blockDim.x / kSide;
  __syncthreads();  // the tile before has been stored
  if (x < rows) {
    for (unsigned y = threadIdx.x / kSide; y < kSide && y < columns; y += step) {
      const T v =
          *reinterpret_cast<const T*>(src + static_cast<long long>(y) * box.src_stride[column_dim] + x * sizeof(T));
      tile[y * kPitch + x] = box.swap_width > 1 ? swap_word(v, box.swap_width) : v;
    }
  }
  __syncthreads();
  if (x < columns) {
    for (unsigned y = threadIdx.x / kSide; y < kSide && y < rows; y += step) {
      *reinterpret_cast<T*>(dst + static_cast<long long>(y) * box.dst_stride[row_dim] + x * sizeof(T)) =
          tile[x * kPitch + y];
    }
  }
}

template <class T>
__device__ inline void box_unit(const BoxItem& box, U64 unit, const Byte* pattern, Byte* shared) {
  if (box.mode == static_cast<unsigned>(BoxMode::kRows)) {
    rows_unit<T>(box, unit, pattern);
  } else if (box.mode == static_cast<unsigned>(BoxMode::kWords)) {
    words_unit<T>(box, unit, pattern);
  } else {
    tile_unit<T>(box, unit, shared);
  }
}

// The item that holds this unit: each lane probes one of 32 places at a time.
__device__ inline unsigned find_item(const unsigned* first_unit, unsigned count, unsigned unit) {
  const unsigned lane = lane_of(threadIdx.x);
  unsigned low = 0, high = count;
  while (high - low > 1) {
    const unsigned step = (high - low + 31) / 32;
    const unsigned probe = low + lane * step;
    const unsigned below = __popc(__ballot_sync(0xffffffffu, probe < high && first_unit[probe] <= unit));
    low += (below - 1) * step;
    high = high - low < step ? high : low + step;
  }
  return low;
}

__device__ inline void assemble_body(const BoxItem* items, const unsigned* first_unit, unsigned count, unsigned units,
                                     const Byte* pattern, Byte* shared) {
  for (unsigned unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const unsigned i = find_item(first_unit, count, unit);
    const BoxItem& box = items[i];
    const U64 local = unit - first_unit[i];
    switch (box.word_bytes) {  // the same for the whole block
      case 1:
        box_unit<Byte>(box, local, pattern, shared);
        break;
      case 2:
        box_unit<unsigned short>(box, local, pattern, shared);
        break;
      case 4:
        box_unit<unsigned>(box, local, pattern, shared);
        break;
      case 8:
        box_unit<uint2>(box, local, pattern, shared);
        break;
      default:
        box_unit<uint4>(box, local, pattern, shared);
        break;
    }
  }
}

}  // namespace headrace::device::cuda
