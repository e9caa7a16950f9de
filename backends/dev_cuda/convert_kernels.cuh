// Device code of assembly with conversion. Included by convert_kernels.cu, and by a test that runs it on the CPU.
//
// The conversion of a number is in device/convert.h, from which the host's loops are built too. Long rows that are
// contiguous on both sides are converted in groups of elements in vector registers; everything else element by element.
#pragma once

#include "copy_kernels.cuh"
#include "device/convert.h"

#ifdef __CUDACC__
#define HEADRACE_NOINLINE __noinline__
#else
#define HEADRACE_NOINLINE
#endif

namespace headrace::device::cuda {

// ---- loads and stores of one element ----

template <class T>
__device__ inline T load_as(const Byte* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(T) == 0) return *reinterpret_cast<const T*>(from);
  T value = 0;
  for (unsigned i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(from[i]) << 8 * i));
  return value;
}
template <class T>
__device__ inline void store_as(Byte* to, T value) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(T) == 0) {
    *reinterpret_cast<T*>(to) = value;
    return;
  }
  for (unsigned i = 0; i < sizeof(T); ++i) to[i] = static_cast<Byte>(value >> 8 * i);
}

__device__ inline std::uint8_t swapped(std::uint8_t v) { return v; }
__device__ inline std::uint16_t swapped(std::uint16_t v) { return static_cast<std::uint16_t>((v >> 8) | (v << 8)); }
__device__ inline std::uint32_t swapped(std::uint32_t v) { return __byte_perm(v, 0, 0x0123); }
__device__ inline std::uint64_t swapped(std::uint64_t v) {
  return (static_cast<std::uint64_t>(swapped(static_cast<std::uint32_t>(v))) << 32) |
         swapped(static_cast<std::uint32_t>(v >> 32));
}

__device__ inline std::uint64_t load_number(const Byte* from, unsigned bytes, bool swap) {
  switch (bytes) {
    case 1:
      return *from;
    case 2: {
      const auto v = load_as<std::uint16_t>(from);
      return swap ? swapped(v) : v;
    }
    case 4: {
      const auto v = load_as<std::uint32_t>(from);
      return swap ? swapped(v) : v;
    }
    default: {
      const auto v = load_as<std::uint64_t>(from);
      return swap ? swapped(v) : v;
    }
  }
}
__device__ inline void store_number(Byte* to, unsigned bytes, std::uint64_t value) {
  switch (bytes) {
    case 1:
      *to = static_cast<Byte>(value);
      return;
    case 2:
      return store_as(to, static_cast<std::uint16_t>(value));
    case 4:
      return store_as(to, static_cast<std::uint32_t>(value));
    default:
      return store_as(to, value);
  }
}

// ---- several elements: one type dispatch for all of them ----

#define HEADRACE_CONVERT_TYPES(CASE) \
  CASE(kBool)                        \
  CASE(kInt8)                        \
  CASE(kInt16)                       \
  CASE(kInt32)                       \
  CASE(kInt64)                       \
  CASE(kUint8)                       \
  CASE(kUint16)                      \
  CASE(kUint32)                      \
  CASE(kUint64)                      \
  CASE(kFloat16)                     \
  CASE(kBfloat16)                    \
  CASE(kFloat32)                     \
  CASE(kFloat64)

template <NumberType kFrom, class W, unsigned kCount, class S>
__device__ inline void widen_batch(const Conversion& c, const S (&raw)[kCount], W (&value)[kCount]) {
  using R = convert::Raw<kFrom>;
  HEADRACE_UNROLL for (unsigned u = 0; u < kCount; ++u) {
    const R r = static_cast<R>(raw[u]);
    if constexpr (sizeof(R) == 8 && !is_float(kFrom) && std::is_floating_point_v<W>) {
      value[u] = convert::rounds_twice(c) ? static_cast<W>(convert::widen_odd<kFrom>(r)) : convert::widen<kFrom, W>(r);
    } else {
      value[u] = convert::widen<kFrom, W>(r);
    }
    if constexpr (std::is_floating_point_v<W>) {
      if (c.fill_to_nan && convert::is_fill<kFrom>(r, static_cast<R>(c.fill_bits))) value[u] = convert::quiet_nan<W>();
    }
  }
}

// ---- one element of any type, raw bits in and out ----

template <class W>
__device__ inline std::uint64_t convert_one_by(const Conversion& c, std::uint64_t raw) {
  const std::uint64_t from[1] = {raw};
  W value[1] = {};
  switch (c.from) {
#define HEADRACE_CASE(type)                                                                 \
  case NumberType::type:                                                                    \
    if constexpr (std::is_integral_v<W> ? !is_float(NumberType::type)                       \
                                        : sizeof(W) == 8 || fits_float(NumberType::type)) { \
      widen_batch<NumberType::type>(c, from, value);                                        \
    }                                                                                       \
    break;
    HEADRACE_CONVERT_TYPES(HEADRACE_CASE)
#undef HEADRACE_CASE
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<W>) {
    if (c.scaled) value[0] = convert::scaled(value[0], static_cast<W>(c.scale), static_cast<W>(c.offset));
  }
  switch (c.to) {
#define HEADRACE_CASE(type)                                                       \
  case NumberType::type:                                                          \
    if constexpr (NumberType::type != NumberType::kBool &&                        \
                  (std::is_floating_point_v<W> || !is_float(NumberType::type))) { \
      return convert::narrow<NumberType::type, W>(value[0]);                      \
    }                                                                             \
    break;
    HEADRACE_CONVERT_TYPES(HEADRACE_CASE)
#undef HEADRACE_CASE
    default:
      break;
  }
  return 0;
}

// A separate function, so that its many cases are compiled once. By value: a reference would go through memory.
__device__ HEADRACE_NOINLINE std::uint64_t convert_one(const Conversion c, std::uint64_t raw) {
  switch (work_type(c)) {
    case WorkType::kFloat:
      return convert_one_by<float>(c, raw);
    case WorkType::kDouble:
      return convert_one_by<double>(c, raw);
    case WorkType::kSigned:
      return convert_one_by<std::int64_t>(c, raw);
    default:
      return convert_one_by<std::uint64_t>(c, raw);
  }
}

// ---- rows ----

// One warp; elements at any address.
__device__ inline void convert_singly(const Conversion& c, const BoxItem& box, Byte* dst, const Byte* src,
                                      unsigned count, unsigned lane) {
  const bool swap = box.swap_width > 1;
  const unsigned in = box.word_bytes, out_bytes = box.result_bytes;
  for (unsigned base = lane; base < count; base += 128) {
    std::uint64_t raw[4] = {}, out[4] = {};
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
      const unsigned i = base + u * 32;
      if (i < count) raw[u] = load_number(src + std::uint64_t{i} * in, in, swap);
    }
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) out[u] = convert_one(c, raw[u]);
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
      const unsigned i = base + u * 32;
      if (i < count) store_number(dst + std::uint64_t{i} * out_bytes, out_bytes, out[u]);
    }
  }
}

// How many elements one access of at most 16 bytes covers on the wider side.
template <class S, class D>
inline constexpr unsigned kGroupElements = sizeof(S) == 8 || sizeof(D) == 8 ? 2 : 4;
inline constexpr unsigned kGroupsAtOnce = 4;
template <class T, unsigned kCount>
struct alignas(sizeof(T) * kCount) Group {
  T element[kCount];
};

// The loop for one value type and the element sizes of both sides; only to floating-point types. What pairs have in
// common is dispatched at run time, so that few loops are compiled.
template <class W, class S, class D>
__device__ inline void convert_batch(const Conversion& c, const S (&raw)[kGroupElements<S, D> * kGroupsAtOnce],
                                     D (&out)[kGroupElements<S, D> * kGroupsAtOnce]) {
  constexpr unsigned kCount = kGroupElements<S, D> * kGroupsAtOnce;
  W value[kCount] = {};
  switch (c.from) {
#define HEADRACE_CASE(type)                                                                                          \
  case NumberType::type:                                                                                             \
    if constexpr (number_bytes(NumberType::type) == sizeof(S) && (sizeof(W) == 8 || fits_float(NumberType::type))) { \
      widen_batch<NumberType::type>(c, raw, value);                                                                  \
    }                                                                                                                \
    break;
    HEADRACE_CONVERT_TYPES(HEADRACE_CASE)
#undef HEADRACE_CASE
    default:
      break;
  }
  if (c.scaled) {
    const W scale = static_cast<W>(c.scale), offset = static_cast<W>(c.offset);
    HEADRACE_UNROLL for (unsigned u = 0; u < kCount; ++u) value[u] = convert::scaled(value[u], scale, offset);
  }
  if constexpr (sizeof(D) == 8) {
    HEADRACE_UNROLL for (unsigned u = 0; u < kCount; ++u) out[u] = convert::narrow<NumberType::kFloat64, W>(value[u]);
  } else if constexpr (sizeof(D) == 4) {
    HEADRACE_UNROLL for (unsigned u = 0; u < kCount; ++u) out[u] = convert::narrow<NumberType::kFloat32, W>(value[u]);
  } else if (c.to == NumberType::kFloat16) {
    HEADRACE_UNROLL for (unsigned u = 0; u < kCount; ++u) out[u] = convert::narrow<NumberType::kFloat16, W>(value[u]);
  } else {
    HEADRACE_UNROLL for (unsigned u = 0; u < kCount; ++u) out[u] = convert::narrow<NumberType::kBfloat16, W>(value[u]);
  }
}

// One warp; `src` and `dst` aligned to whole groups. An iteration issues all its loads before its first store.
template <class W, class S, class D>
__device__ inline void convert_groups(const Conversion& c, bool swap, Byte* dst, const Byte* src, unsigned groups,
                                      unsigned lane) {
  constexpr unsigned kGroup = kGroupElements<S, D>, kCount = kGroup * kGroupsAtOnce;
  const auto* from = reinterpret_cast<const Group<S, kGroup>*>(src);
  auto* to = reinterpret_cast<Group<D, kGroup>*>(dst);
  for (unsigned base = lane; base < groups; base += 32 * kGroupsAtOnce) {
    S raw[kCount] = {};
    D out[kCount] = {};
    HEADRACE_UNROLL for (unsigned u = 0; u < kGroupsAtOnce; ++u) {
      if (base + u * 32 < groups) {
        const Group<S, kGroup> group = from[base + u * 32];
        HEADRACE_UNROLL for (unsigned e = 0; e < kGroup; ++e) raw[u * kGroup + e] = group.element[e];
      }
    }
    if (swap) {
      HEADRACE_UNROLL for (unsigned u = 0; u < kCount; ++u) raw[u] = swapped(raw[u]);
    }
    convert_batch<W, S, D>(c, raw, out);
    HEADRACE_UNROLL for (unsigned u = 0; u < kGroupsAtOnce; ++u) {
      if (base + u * 32 < groups) {
        Group<D, kGroup> group;
        HEADRACE_UNROLL for (unsigned e = 0; e < kGroup; ++e) group.element[e] = out[u * kGroup + e];
        to[base + u * 32] = group;
      }
    }
  }
}

template <class W, class S, class D>
__device__ inline void convert_run_by(const Conversion& c, const BoxItem& box, Byte* dst, const Byte* src,
                                      unsigned count, unsigned lane) {
  constexpr unsigned kGroup = kGroupElements<S, D>, kTo = kGroup * sizeof(D), kFrom = kGroup * sizeof(S);
  const unsigned skew = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(dst) % kTo);
  const unsigned head = skew == 0 ? 0 : (kTo - skew) / static_cast<unsigned>(sizeof(D));
  const bool meet = skew % sizeof(D) == 0 && (reinterpret_cast<std::uintptr_t>(src) + head * sizeof(S)) % kFrom == 0;
  if (!meet || count < 32) return convert_singly(c, box, dst, src, count, lane);
  const unsigned groups = (count - head) / kGroup, done = head + groups * kGroup;
  if (head > 0) convert_singly(c, box, dst, src, head, lane);
  convert_groups<W, S, D>(c, box.swap_width > 1, dst + head * sizeof(D), src + head * sizeof(S), groups, lane);
  if (done < count) {
    convert_singly(c, box, dst + std::uint64_t{done} * sizeof(D), src + std::uint64_t{done} * sizeof(S), count - done,
                   lane);
  }
}

template <class W, class S>
__device__ inline void convert_run_from(const Conversion& c, const BoxItem& box, Byte* dst, const Byte* src,
                                        unsigned count, unsigned lane) {
  // Pairs that rarely carry many bytes have no loop of their own.
  if (is_float(c.to)) {
    if constexpr (sizeof(W) == 8 || sizeof(S) <= 4) {
      if (box.result_bytes == 2) return convert_run_by<W, S, std::uint16_t>(c, box, dst, src, count, lane);
      if (box.result_bytes == 4) return convert_run_by<W, S, std::uint32_t>(c, box, dst, src, count, lane);
    }
    if constexpr (sizeof(W) == 8) {
      if (box.result_bytes == 8) return convert_run_by<W, S, std::uint64_t>(c, box, dst, src, count, lane);
    }
  }
  convert_singly(c, box, dst, src, count, lane);
}

__device__ inline void convert_run(const Conversion& c, const BoxItem& box, Byte* dst, const Byte* src, unsigned count,
                                   unsigned lane) {
  const WorkType work = work_type(c);
  if (work == WorkType::kFloat) {
    if (box.word_bytes == 1) return convert_run_from<float, std::uint8_t>(c, box, dst, src, count, lane);
    if (box.word_bytes == 2) return convert_run_from<float, std::uint16_t>(c, box, dst, src, count, lane);
    return convert_run_from<float, std::uint32_t>(c, box, dst, src, count, lane);
  }
  if (work == WorkType::kDouble) {
    if (box.word_bytes == 2) return convert_run_from<double, std::uint16_t>(c, box, dst, src, count, lane);
    if (box.word_bytes == 4) return convert_run_from<double, std::uint32_t>(c, box, dst, src, count, lane);
    if (box.word_bytes == 8) return convert_run_from<double, std::uint64_t>(c, box, dst, src, count, lane);
  }
  convert_singly(c, box, dst, src, count, lane);
}

__device__ inline void convert_rows_unit(const Conversion& c, const BoxItem& box, U64 unit) {
  const unsigned lane = lane_of(threadIdx.x), warps = blockDim.x / 32;
  const int inner = static_cast<int>(box.rank) - 1;
  const U64 run = box.extent[inner];
  for (unsigned k = threadIdx.x / 32; k < box.per_unit; k += warps) {
    const U64 index = unit * box.per_unit + k;
    if (index >= box.count) return;
    U64 row = index, segment = 0;
    if (box.segments > 1) {
      row = index / box.segments;
      segment = index - row * box.segments;
    }
    const Offsets at = locate(box, row, inner, box.count);
    const U64 begin = segment * kConvertSegment;
    const U64 count = run - begin < kConvertSegment ? run - begin : kConvertSegment;
    convert_run(c, box, box.dst + at.dst + begin * box.result_bytes, box.src + at.src + begin * box.word_bytes,
                static_cast<unsigned>(count), lane);
  }
}

// ---- any strides, and transposes ----

__device__ inline void convert_words_unit(const Conversion& c, const BoxItem& box, U64 unit) {
  const int rank = static_cast<int>(box.rank);
  const bool swap = box.swap_width > 1;
  const unsigned in = box.word_bytes, out_bytes = box.result_bytes;
  const U64 first = unit * kWordsPerUnit;
  const U64 left = box.count - first;
  const unsigned words = left < kWordsPerUnit ? static_cast<unsigned>(left) : kWordsPerUnit;
  for (unsigned base = threadIdx.x; base < words; base += 4 * blockDim.x) {
    std::uint64_t raw[4] = {}, out[4] = {};
    Byte* to[4] = {};
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
      const unsigned i = base + u * blockDim.x;
      if (i >= words) continue;
      const Offsets at = locate(box, first + i, rank, box.count);
      to[u] = box.dst + at.dst;
      raw[u] = load_number(box.src + at.src, in, swap);
    }
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) out[u] = convert_one(c, raw[u]);
    HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
      if (base + u * blockDim.x < words) store_number(to[u], out_bytes, out[u]);
    }
  }
}

inline constexpr unsigned kConvertTilePitch = kConvertTileSide + 1;
inline constexpr unsigned kConvertTileWords = kConvertTileSide * kConvertTilePitch;

__device__ inline void convert_tile_unit(const Conversion& c, const BoxItem& box, U64 unit, std::uint64_t* tile) {
  constexpr unsigned kSide = kConvertTileSide;
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
  const bool swap = box.swap_width > 1;
  const unsigned in = box.word_bytes, out_bytes = box.result_bytes;
  const long long src_step = box.src_stride[column_dim], dst_step = box.dst_stride[row_dim];
  const unsigned x = threadIdx.x % kSide, y0 = threadIdx.x / kSide, step = blockDim.x / kSide;
  __syncthreads();  // the previous tile has been stored
  if (x < rows) {
    for (unsigned base = y0; base < kSide && base < columns; base += 4 * step) {
      std::uint64_t raw[4] = {}, out[4] = {};
      HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
        const unsigned y = base + u * step;
        if (y >= kSide || y >= columns) continue;
        raw[u] = load_number(src + static_cast<long long>(y) * src_step + x * in, in, swap);
      }
      HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) out[u] = convert_one(c, raw[u]);
      HEADRACE_UNROLL for (unsigned u = 0; u < 4; ++u) {
        const unsigned y = base + u * step;
        if (y < kSide && y < columns) tile[y * kConvertTilePitch + x] = out[u];
      }
    }
  }
  __syncthreads();
  if (x < columns) {
    for (unsigned y = y0; y < kSide && y < rows; y += step) {
      store_number(dst + static_cast<long long>(y) * dst_step + x * out_bytes, out_bytes,
                   tile[x * kConvertTilePitch + y]);
    }
  }
}

__device__ inline void convert_body(const BoxItem* items, const unsigned* first_unit, unsigned count, unsigned units,
                                    const Conversion& c, std::uint64_t* tile) {
  for (unsigned unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const unsigned i = find_item(first_unit, count, unit);
    const BoxItem& box = items[i];
    const U64 local = unit - first_unit[i];
    if (box.mode == static_cast<unsigned>(BoxMode::kRows)) {
      convert_rows_unit(c, box, local);
    } else if (box.mode == static_cast<unsigned>(BoxMode::kWords)) {
      convert_words_unit(c, box, local);
    } else {
      convert_tile_unit(c, box, local, tile);
    }
  }
}

#undef HEADRACE_CONVERT_TYPES

}  // namespace headrace::device::cuda
