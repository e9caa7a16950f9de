#include "device/convert_kernels.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define HEADRACE_CONVERT_X86 1
#endif

namespace headrace::device::kernels {
namespace {

#define HEADRACE_INLINE __attribute__((always_inline)) inline

constexpr std::size_t kTileElements = 1024;  // raw data, values and results of a tile: at most 24 KiB
constexpr std::uint64_t kSquareSide = 32;

template <class T>
HEADRACE_INLINE T load(const std::byte* from, std::size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
HEADRACE_INLINE void store(std::byte* to, std::size_t i, T value) {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

template <NumberType kFrom, class W>
HEADRACE_INLINE void widen_in(const std::byte* src, std::byte* work, std::size_t count, const Conversion& c) {
  using R = convert::Raw<kFrom>;
  constexpr bool kOdd = std::is_same_v<W, double> && (kFrom == NumberType::kInt64 || kFrom == NumberType::kUint64);
  auto each = [&](auto&& value) __attribute__((always_inline)) {
    if constexpr (std::is_floating_point_v<W>) {
      if (c.fill_to_nan) {
        const R fill = static_cast<R>(c.fill_bits);
        for (std::size_t i = 0; i < count; ++i) {
          const R raw = load<R>(src, i);
          store<W>(work, i, convert::is_fill<kFrom>(raw, fill) ? convert::quiet_nan<W>() : value(raw));
        }
        return;
      }
    }
    for (std::size_t i = 0; i < count; ++i) store<W>(work, i, value(load<R>(src, i)));
  };
  if constexpr (kOdd) {
    if (convert::rounds_twice(c)) {
      return each([](R raw) __attribute__((always_inline)) { return convert::widen_odd<kFrom>(raw); });
    }
  }
  each([](R raw) __attribute__((always_inline)) { return convert::widen<kFrom, W>(raw); });
}

template <class W>
HEADRACE_INLINE void scale_in(std::byte* work, std::size_t count, const Conversion& c) {
  const W scale = static_cast<W>(c.scale), offset = static_cast<W>(c.offset);
  for (std::size_t i = 0; i < count; ++i) store<W>(work, i, convert::scaled(load<W>(work, i), scale, offset));
}

template <NumberType kTo, class W>
HEADRACE_INLINE void narrow_in(const std::byte* work, std::byte* dst, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store(dst, i, convert::narrow<kTo, W>(load<W>(work, i)));
}

// Each loop is compiled twice: for the baseline machine and for AVX2.
template <NumberType kFrom, class W>
void widen_run(const std::byte* src, std::byte* work, std::size_t count, const Conversion& c) noexcept {
  widen_in<kFrom, W>(src, work, count, c);
}
template <class W>
void scale_run(std::byte* work, std::size_t count, const Conversion& c) noexcept {
  scale_in<W>(work, count, c);
}
template <NumberType kTo, class W>
void narrow_run(const std::byte* work, std::byte* dst, std::size_t count) noexcept {
  narrow_in<kTo, W>(work, dst, count);
}
#ifdef HEADRACE_CONVERT_X86
template <NumberType kFrom, class W>
__attribute__((target("avx2"))) void widen_run_avx2(const std::byte* src, std::byte* work, std::size_t count,
                                                    const Conversion& c) noexcept {
  widen_in<kFrom, W>(src, work, count, c);
}
template <class W>
__attribute__((target("avx2"))) void scale_run_avx2(std::byte* work, std::size_t count, const Conversion& c) noexcept {
  scale_in<W>(work, count, c);
}
template <NumberType kTo, class W>
__attribute__((target("avx2"))) void narrow_run_avx2(const std::byte* work, std::byte* dst,
                                                     std::size_t count) noexcept {
  narrow_in<kTo, W>(work, dst, count);
}
// float16 has its own instructions, which round as the loops above do.
__attribute__((target("avx2,f16c"))) void widen_half_f16c(const std::byte* src, std::byte* work, std::size_t count,
                                                          const Conversion& c) noexcept {
  if (c.fill_to_nan) return widen_in<NumberType::kFloat16, float>(src, work, count, c);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i * 2));
    _mm256_storeu_ps(reinterpret_cast<float*>(work + i * 4), _mm256_cvtph_ps(raw));
  }
  widen_in<NumberType::kFloat16, float>(src + i * 2, work + i * 4, count - i, c);
}
__attribute__((target("avx2,f16c"))) void narrow_half_f16c(const std::byte* work, std::byte* dst,
                                                           std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256 v = _mm256_loadu_ps(reinterpret_cast<const float*>(work + i * 4));
    v = _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(convert::kFloatNan))),
                         _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i * 2),
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  narrow_in<NumberType::kFloat16, float>(work + i * 4, dst + i * 2, count - i);
}
#endif

bool has_avx2() noexcept {
#ifdef HEADRACE_CONVERT_X86
  static const bool found = __builtin_cpu_supports("avx2");
  return found;
#else
  return false;
#endif
}

#ifdef HEADRACE_CONVERT_X86
// Queries the CPU directly, since not every compiler's __builtin_cpu_supports knows f16c. If AVX2 is usable, so are the
// registers for it.
bool has_f16c() noexcept {
  static const bool found = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return has_avx2() && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return found;
}
#define HEADRACE_CHOOSE(name, ...) (has_avx2() ? &name##_avx2<__VA_ARGS__> : &name<__VA_ARGS__>)
#else
#define HEADRACE_CHOOSE(name, ...) (&name<__VA_ARGS__>)
#endif

// Calls `visit` with the work type. The integer types are used only for integer-to-integer conversions.
template <class Visitor>
auto with_work(WorkType type, Visitor&& visit) {
  switch (type) {
    case WorkType::kFloat:
      return visit.template operator()<float>();
    case WorkType::kDouble:
      return visit.template operator()<double>();
    case WorkType::kSigned:
      return visit.template operator()<std::int64_t>();
    default:
      return visit.template operator()<std::uint64_t>();
  }
}

}  // namespace

Converter::Converter(const ElementOp& op) noexcept : op_(op), scale_(nullptr) {
  const Conversion& c = op.conversion;
  const WorkType work = work_type(c);
  widen_ = convert::with_source(c.from, [&]<NumberType kFrom>() -> Widen {
    return with_work(work, [&]<class W>() -> Widen {
      constexpr bool kUsed = std::is_integral_v<W> ? !is_float(kFrom) && is_unsigned(kFrom) == std::is_unsigned_v<W>
                                                   : sizeof(W) == 8 || fits_float(kFrom);
      if constexpr (kUsed) return HEADRACE_CHOOSE(widen_run, kFrom, W);
      return nullptr;
    });
  });
  narrow_ = convert::with_target(c.to, [&]<NumberType kTo>() -> Narrow {
    return with_work(work, [&]<class W>() -> Narrow {
      if constexpr (std::is_floating_point_v<W> || !is_float(kTo)) return HEADRACE_CHOOSE(narrow_run, kTo, W);
      return nullptr;
    });
  });
#ifdef HEADRACE_CONVERT_X86
  if (work == WorkType::kFloat && has_f16c()) {
    if (c.from == NumberType::kFloat16) widen_ = widen_half_f16c;
    if (c.to == NumberType::kFloat16) narrow_ = narrow_half_f16c;
  }
#endif
  if (c.scaled)
    scale_ = work == WorkType::kFloat ? HEADRACE_CHOOSE(scale_run, float) : HEADRACE_CHOOSE(scale_run, double);
}

void Converter::run(const std::byte* src, std::byte* dst, std::size_t count) const noexcept {
  alignas(64) std::byte work[kTileElements * 8];
  const std::size_t in = op_.element_bytes, out = op_.result_bytes();
  for (std::size_t at = 0; at < count; at += kTileElements) {
    const std::size_t n = std::min(kTileElements, count - at);
    widen_(src + at * in, work, n, op_.conversion);
    if (scale_ != nullptr) scale_(work, n, op_.conversion);
    narrow_(work, dst + at * out, n);
  }
}

void Converter::run(const Plane& p, PlaneKernel gather, bool square) const noexcept {
  alignas(64) std::byte raw[kTileElements * 8];
  alignas(64) std::byte result[kTileElements * 8];
  const auto in = static_cast<std::int64_t>(op_.element_bytes), out = static_cast<std::int64_t>(op_.result_bytes());
  const std::uint64_t tile_columns = std::min<std::uint64_t>(p.columns, square ? kSquareSide : kTileElements);
  const std::uint64_t tile_rows = square ? kSquareSide : kTileElements / tile_columns;
  const bool direct_in = op_.swap_width <= 1 && p.src_column_stride == in;
  const bool direct_out = p.dst_column_stride == out;
  const PlaneKernel scatter =
      direct_out ? contiguous_kernel(op_.result_bytes(), 1) : strided_kernel(op_.result_bytes(), 1);
  for (std::uint64_t row = 0; row < p.rows; row += tile_rows) {
    for (std::uint64_t column = 0; column < p.columns; column += tile_columns) {
      const auto r = static_cast<std::int64_t>(row), c = static_cast<std::int64_t>(column);
      Plane tile = p;
      tile.src += r * p.src_row_stride + c * p.src_column_stride;
      tile.dst += r * p.dst_row_stride + c * p.dst_column_stride;
      tile.rows = std::min(tile_rows, p.rows - row);
      tile.columns = std::min(tile_columns, p.columns - column);
      const auto width = static_cast<std::int64_t>(tile.columns);
      const std::byte* from = tile.src;
      if (!direct_in || tile.rows > 1) {
        Plane dense = tile;
        dense.dst = raw;
        dense.dst_column_stride = in;
        dense.dst_row_stride = width * in;
        gather(dense, op_.element_bytes, op_.swap_width);
        from = raw;
      }
      const bool straight = direct_out && tile.rows == 1;
      run(from, straight ? tile.dst : result, static_cast<std::size_t>(tile.rows * tile.columns));
      if (straight) continue;
      Plane dense = tile;
      dense.src = result;
      dense.src_column_stride = out;
      dense.src_row_stride = width * out;
      scatter(dense, op_.result_bytes(), 1);
    }
  }
}

}  // namespace headrace::device::kernels
