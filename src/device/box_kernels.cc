#include "device/box_kernels.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headrace::device::kernels {
namespace {

#if defined(__x86_64__)
#define HEADRACE_BOX_X86 1
#endif

template <unsigned kBytes>
struct Lanes {
  typedef unsigned char type __attribute__((vector_size(kBytes)));
};
template <unsigned kBytes>
using Vec = typename Lanes<kBytes>::type;

#define HEADRACE_INLINE __attribute__((always_inline)) inline

// Source index of the byte that ends up at i when bytes are reversed within groups of kWidth.
template <unsigned kWidth>
constexpr int swapped_index(int i) {
  const int width = static_cast<int>(kWidth);
  return i / width * width + (width - 1 - i % width);
}

// By reference: passing a 32-byte vector by value requires the caller to be compiled for AVX.
template <unsigned kBytes, unsigned kWidth, int... I>
HEADRACE_INLINE void swap_lanes(Vec<kBytes>& v, std::integer_sequence<int, I...>) {
  v = __builtin_shufflevector(v, v, swapped_index<kWidth>(I)...);
}
template <unsigned kBytes, unsigned kWidth>
HEADRACE_INLINE void swap_vec(Vec<kBytes>& v) {
  if constexpr (kWidth > 1) swap_lanes<kBytes, kWidth>(v, std::make_integer_sequence<int, static_cast<int>(kBytes)>{});
}

template <unsigned kBytes>
struct Word;
template <>
struct Word<1> {
  using type = std::uint8_t;
};
template <>
struct Word<2> {
  using type = std::uint16_t;
};
template <>
struct Word<4> {
  using type = std::uint32_t;
};
template <>
struct Word<8> {
  using type = std::uint64_t;
};
template <>
struct Word<16> {
  struct type {
    std::uint64_t lo, hi;
  };
};

template <unsigned kWidth>
HEADRACE_INLINE std::uint64_t swap_word64(std::uint64_t v) {
  if constexpr (kWidth == 2) return ((v >> 8) & 0x00ff00ff00ff00ffull) | ((v & 0x00ff00ff00ff00ffull) << 8);
  if constexpr (kWidth == 4) return __builtin_bswap64((v >> 32) | (v << 32));
  if constexpr (kWidth == 8) return __builtin_bswap64(v);
  return v;
}

template <unsigned kSize, unsigned kWidth>
HEADRACE_INLINE void copy_element(std::byte* dst, const std::byte* src) {
  typename Word<kSize>::type v;
  std::memcpy(&v, src, kSize);
  if constexpr (kWidth > 1) {
    if constexpr (kSize == 2) v = __builtin_bswap16(v);
    if constexpr (kSize == 4) v = kWidth == 4 ? __builtin_bswap32(v) : static_cast<std::uint32_t>(swap_word64<2>(v));
    if constexpr (kSize == 8) v = swap_word64<kWidth>(v);
    if constexpr (kSize == 16) {
      if constexpr (kWidth == 16) {
        v = {__builtin_bswap64(v.hi), __builtin_bswap64(v.lo)};
      } else {
        v = {swap_word64<kWidth>(v.lo), swap_word64<kWidth>(v.hi)};
      }
    }
  }
  std::memcpy(dst, &v, kSize);
}

// Any size, and any width that divides it.
HEADRACE_INLINE void copy_element_any(std::byte* dst, const std::byte* src, std::uint32_t size, std::uint32_t width) {
  if (width <= 1) {
    std::memcpy(dst, src, size);
    return;
  }
  for (std::uint32_t group = 0; group < size; group += width) {
    for (std::uint32_t i = 0; i < width; ++i) dst[group + i] = src[group + width - 1 - i];
  }
}

// ---- contiguous runs ----

void copy_rows(const Plane& p, std::uint32_t element_bytes, std::uint32_t) noexcept {
  const std::size_t run = p.columns * element_bytes;
  const std::byte* src = p.src;
  std::byte* dst = p.dst;
  for (std::uint64_t row = 0; row < p.rows; ++row, src += p.src_row_stride, dst += p.dst_row_stride) {
    std::memcpy(dst, src, run);
  }
}

template <unsigned kBytes, unsigned kWidth>
HEADRACE_INLINE void swap_rows_in(const Plane& p, std::uint32_t element_bytes) {
  const std::size_t run = p.columns * element_bytes;
  for (std::uint64_t row = 0; row < p.rows; ++row) {
    const std::byte* src = p.src + static_cast<std::int64_t>(row) * p.src_row_stride;
    std::byte* dst = p.dst + static_cast<std::int64_t>(row) * p.dst_row_stride;
    std::size_t i = 0;
    for (; i + 2 * kBytes <= run; i += 2 * kBytes) {
      Vec<kBytes> a, b;
      std::memcpy(&a, src + i, kBytes);
      std::memcpy(&b, src + i + kBytes, kBytes);
      swap_vec<kBytes, kWidth>(a);
      swap_vec<kBytes, kWidth>(b);
      std::memcpy(dst + i, &a, kBytes);
      std::memcpy(dst + i + kBytes, &b, kBytes);
    }
    for (; i < run; i += kWidth) copy_element<kWidth, kWidth>(dst + i, src + i);
  }
}

template <unsigned kWidth>
void swap_rows(const Plane& p, std::uint32_t element_bytes, std::uint32_t) noexcept {
  swap_rows_in<16, kWidth>(p, element_bytes);
}
#ifdef HEADRACE_BOX_X86
template <unsigned kWidth>
__attribute__((target("ssse3"))) void swap_rows_ssse3(const Plane& p, std::uint32_t element_bytes,
                                                      std::uint32_t) noexcept {
  swap_rows_in<16, kWidth>(p, element_bytes);
}
template <unsigned kWidth>
__attribute__((target("avx2"))) void swap_rows_avx2(const Plane& p, std::uint32_t element_bytes,
                                                    std::uint32_t) noexcept {
  swap_rows_in<32, kWidth>(p, element_bytes);
}
#endif

enum class Isa { kBase, kSsse3, kAvx2 };
Isa isa() noexcept {
#ifdef HEADRACE_BOX_X86
  static const Isa found = __builtin_cpu_supports("avx2")    ? Isa::kAvx2
                           : __builtin_cpu_supports("ssse3") ? Isa::kSsse3
                                                             : Isa::kBase;
  return found;
#else
  return Isa::kBase;
#endif
}

template <unsigned kWidth>
PlaneKernel choose_swap_rows() noexcept {
#ifdef HEADRACE_BOX_X86
  if (isa() == Isa::kAvx2) return swap_rows_avx2<kWidth>;
  if (isa() == Isa::kSsse3) return swap_rows_ssse3<kWidth>;
#endif
  return swap_rows<kWidth>;
}

// ---- any strides ----

template <unsigned kSize, unsigned kWidth>
void strided(const Plane& p, std::uint32_t, std::uint32_t) noexcept {
  for (std::uint64_t row = 0; row < p.rows; ++row) {
    const std::byte* src = p.src + static_cast<std::int64_t>(row) * p.src_row_stride;
    std::byte* dst = p.dst + static_cast<std::int64_t>(row) * p.dst_row_stride;
    if (p.dst_column_stride == static_cast<std::int64_t>(kSize)) {
      for (std::uint64_t i = 0; i < p.columns; ++i) {
        copy_element<kSize, kWidth>(dst + i * kSize, src + static_cast<std::int64_t>(i) * p.src_column_stride);
      }
      continue;
    }
    for (std::uint64_t i = 0; i < p.columns; ++i, src += p.src_column_stride, dst += p.dst_column_stride) {
      copy_element<kSize, kWidth>(dst, src);
    }
  }
}

void strided_any(const Plane& p, std::uint32_t element_bytes, std::uint32_t swap_width) noexcept {
  for (std::uint64_t row = 0; row < p.rows; ++row) {
    const std::byte* src = p.src + static_cast<std::int64_t>(row) * p.src_row_stride;
    std::byte* dst = p.dst + static_cast<std::int64_t>(row) * p.dst_row_stride;
    for (std::uint64_t i = 0; i < p.columns; ++i, src += p.src_column_stride, dst += p.dst_column_stride) {
      copy_element_any(dst, src, element_bytes, swap_width);
    }
  }
}

// ---- transposes ----

// Interleaving row i with row i + N/2, log2(N) times, transposes an N x N block of N-element vectors.
template <unsigned kSize>
constexpr int interleave_index(int i, bool high) {
  const int n = static_cast<int>(16 / kSize), size = static_cast<int>(kSize);
  const int element = i / size;                       // of the result
  const int from = element / 2 + (high ? n / 2 : 0);  // of the operand
  return (element % 2 == 0 ? 0 : 16) + from * size + i % size;
}
template <unsigned kSize, bool kHigh, int... I>
HEADRACE_INLINE Vec<16> interleave(Vec<16> a, Vec<16> b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, interleave_index<kSize>(I, kHigh)...);
}

template <unsigned kSize, unsigned kWidth>
HEADRACE_INLINE void transpose_block(const std::byte* src, std::int64_t src_stride, std::byte* dst,
                                     std::int64_t dst_stride) {
  constexpr unsigned kN = 16 / kSize;
  constexpr auto kSequence = std::make_integer_sequence<int, 16>{};
  Vec<16> a[kN], b[kN];
#pragma GCC unroll 16
  for (unsigned i = 0; i < kN; ++i) {
    std::memcpy(&a[i], src + static_cast<std::int64_t>(i) * src_stride, 16);
    swap_vec<16, kWidth>(a[i]);
  }
#pragma GCC unroll 4
  for (unsigned stage = 1; stage < kN; stage *= 2) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < kN / 2; ++i) {
      b[2 * i] = interleave<kSize, false>(a[i], a[i + kN / 2], kSequence);
      b[2 * i + 1] = interleave<kSize, true>(a[i], a[i + kN / 2], kSequence);
    }
#pragma GCC unroll 16
    for (unsigned i = 0; i < kN; ++i) a[i] = b[i];
  }
#pragma GCC unroll 16
  for (unsigned i = 0; i < kN; ++i) std::memcpy(dst + static_cast<std::int64_t>(i) * dst_stride, &a[i], 16);
}

// Tiles are one cache line each way, so every line of either side is touched once while it is cached. `rows` run along
// the source's contiguous dimension, `columns` along the destination's.
template <unsigned kSize, unsigned kWidth>
HEADRACE_INLINE void transpose_in(const Plane& p) {
  constexpr std::uint64_t kN = 16 / kSize, kTile = 64 / kSize;
  auto scalar = [&](std::uint64_t row, std::uint64_t row_end, std::uint64_t column, std::uint64_t column_end) {
    for (std::uint64_t r = row; r < row_end; ++r) {
      for (std::uint64_t c = column; c < column_end; ++c) {
        copy_element<kSize, kWidth>(p.dst + static_cast<std::int64_t>(r) * p.dst_row_stride + c * kSize,
                                    p.src + r * kSize + static_cast<std::int64_t>(c) * p.src_column_stride);
      }
    }
  };
  for (std::uint64_t row = 0; row < p.rows; row += kTile) {
    const std::uint64_t row_end = std::min(p.rows, row + kTile);
    for (std::uint64_t column = 0; column < p.columns; column += kTile) {
      const std::uint64_t column_end = std::min(p.columns, column + kTile);
      const std::uint64_t row_full = row + (row_end - row) / kN * kN;
      const std::uint64_t column_full = column + (column_end - column) / kN * kN;
      for (std::uint64_t r = row; r < row_full; r += kN) {
        for (std::uint64_t c = column; c < column_full; c += kN) {
          transpose_block<kSize, kWidth>(
              p.src + r * kSize + static_cast<std::int64_t>(c) * p.src_column_stride, p.src_column_stride,
              p.dst + static_cast<std::int64_t>(r) * p.dst_row_stride + c * kSize, p.dst_row_stride);
        }
      }
      if (column_full < column_end) scalar(row, row_full, column_full, column_end);
      if (row_full < row_end) scalar(row_full, row_end, column, column_end);
    }
  }
}

template <unsigned kSize, unsigned kWidth>
void transpose_base(const Plane& p, std::uint32_t, std::uint32_t) noexcept {
  transpose_in<kSize, kWidth>(p);
}
#ifdef HEADRACE_BOX_X86
template <unsigned kSize, unsigned kWidth>
__attribute__((target("ssse3"))) void transpose_ssse3(const Plane& p, std::uint32_t, std::uint32_t) noexcept {
  transpose_in<kSize, kWidth>(p);
}
#endif
template <unsigned kSize, unsigned kWidth>
PlaneKernel choose_transpose() noexcept {
#ifdef HEADRACE_BOX_X86
  if (isa() != Isa::kBase) return transpose_ssse3<kSize, kWidth>;
#endif
  return transpose_base<kSize, kWidth>;
}

// Calls `visit` with the pair as constants if it is one of those compiled: sizes 1, 2, 4, 8, 16 and
// every smaller width.
template <class Visitor>
PlaneKernel with_constants(std::uint32_t size, std::uint32_t width, Visitor visit) noexcept {
  auto pick = [&]<unsigned kSize>() -> PlaneKernel {
    if (width <= 1) return visit.template operator()<kSize, 1>();
    if constexpr (kSize >= 2) {
      if (width == 2) return visit.template operator()<kSize, 2>();
    }
    if constexpr (kSize >= 4) {
      if (width == 4) return visit.template operator()<kSize, 4>();
    }
    if constexpr (kSize >= 8) {
      if (width == 8) return visit.template operator()<kSize, 8>();
    }
    if constexpr (kSize >= 16) {
      if (width == 16) return visit.template operator()<kSize, 16>();
    }
    return nullptr;
  };
  switch (size) {
    case 1:
      return pick.template operator()<1>();
    case 2:
      return pick.template operator()<2>();
    case 4:
      return pick.template operator()<4>();
    case 8:
      return pick.template operator()<8>();
    case 16:
      return pick.template operator()<16>();
    default:
      return nullptr;
  }
}

// ---- fill ----

void fill_run(std::byte* dst, std::size_t bytes, std::size_t seed, const std::byte* pattern) {
  // Writes `seed` bytes of pattern, then copies what is there already, each time from the first 4 KiB at most, which
  // stay in the L1 cache.
  std::size_t done = std::min(bytes, seed);
  std::memcpy(dst, pattern, done);
  const std::size_t limit = std::max<std::size_t>(seed, 4096 / seed * seed);
  while (done < bytes) {
    const std::size_t next = std::min({done, limit, bytes - done});
    std::memcpy(dst + done, dst, next);
    done += next;
  }
}

template <unsigned kSize>
void fill_strided(const Plane& p, const std::byte* pattern) {
  for (std::uint64_t row = 0; row < p.rows; ++row) {
    std::byte* dst = p.dst + static_cast<std::int64_t>(row) * p.dst_row_stride;
    for (std::uint64_t i = 0; i < p.columns; ++i, dst += p.dst_column_stride) copy_element<kSize, 1>(dst, pattern);
  }
}

}  // namespace

PlaneKernel contiguous_kernel(std::uint32_t, std::uint32_t swap_width) noexcept {
  switch (swap_width) {
    case 0:
    case 1:
      return copy_rows;
    case 2:
      return choose_swap_rows<2>();
    case 4:
      return choose_swap_rows<4>();
    case 8:
      return choose_swap_rows<8>();
    case 16:
      return choose_swap_rows<16>();
    default:
      return strided_any;
  }
}

PlaneKernel strided_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept {
  PlaneKernel kernel = with_constants(element_bytes, swap_width, []<unsigned kSize, unsigned kWidth>() -> PlaneKernel {
    return strided<kSize, kWidth>;
  });
  return kernel != nullptr ? kernel : strided_any;
}

PlaneKernel transpose_kernel(std::uint32_t element_bytes, std::uint32_t swap_width) noexcept {
  return with_constants(element_bytes, swap_width, []<unsigned kSize, unsigned kWidth>() -> PlaneKernel {
    return choose_transpose<kSize, kWidth>();
  });
}

void fill_plane(const Plane& p, std::uint32_t element_bytes, const std::byte* pattern) noexcept {
  if (p.dst_column_stride == static_cast<std::int64_t>(element_bytes)) {
    const std::size_t run = p.columns * element_bytes;
    const bool uniform = std::all_of(pattern, pattern + element_bytes, [&](std::byte b) { return b == pattern[0]; });
    for (std::uint64_t row = 0; row < p.rows; ++row) {
      std::byte* dst = p.dst + static_cast<std::int64_t>(row) * p.dst_row_stride;
      if (uniform) {
        std::memset(dst, static_cast<int>(pattern[0]), run);
      } else {
        fill_run(dst, run, element_bytes, pattern);
      }
    }
    return;
  }
  switch (element_bytes) {
    case 1:
      return fill_strided<1>(p, pattern);
    case 2:
      return fill_strided<2>(p, pattern);
    case 4:
      return fill_strided<4>(p, pattern);
    case 8:
      return fill_strided<8>(p, pattern);
    case 16:
      return fill_strided<16>(p, pattern);
    default:
      break;
  }
  for (std::uint64_t row = 0; row < p.rows; ++row) {
    std::byte* dst = p.dst + static_cast<std::int64_t>(row) * p.dst_row_stride;
    for (std::uint64_t i = 0; i < p.columns; ++i, dst += p.dst_column_stride) std::memcpy(dst, pattern, element_bytes);
  }
}

}  // namespace headrace::device::kernels
