// Conversion: how one number is converted on its way into a tensor. One source serves the host's loops and the GPU.
//
// Results are bit-identical on every device:
//   - The value is that of the stored number. A scaled one is value * scale + offset, each operation rounded once, in
//     float32 if both types fit its 24 bits (integers up to 16 bits, float16, bfloat16, float32), otherwise in float64.
//   - To a floating type: rounded once, to nearest, ties to even; overflow becomes infinity, subnormals are kept. NaN
//     becomes the type's positive quiet NaN without payload.
//   - To an integer: truncated towards zero, as NumPy's astype. Values out of range saturate and NaN becomes 0.
//   - bool is 1 for any stored byte but 0.
//   - With `fill_to_nan`, a stored number equal to `fill_bits` becomes NaN; +0 and -0 are equal.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define HEADRACE_CONVERT_INLINE __host__ __device__ __forceinline__
#else
#define HEADRACE_CONVERT_INLINE __attribute__((always_inline)) inline
#endif

namespace headrace::device {

enum class NumberType : std::uint8_t {
  kNone,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
};

HEADRACE_CONVERT_INLINE constexpr std::uint32_t number_bytes(NumberType type) noexcept {
  switch (type) {
    case NumberType::kNone:
      return 0;
    case NumberType::kBool:
    case NumberType::kInt8:
    case NumberType::kUint8:
      return 1;
    case NumberType::kInt16:
    case NumberType::kUint16:
    case NumberType::kFloat16:
    case NumberType::kBfloat16:
      return 2;
    case NumberType::kInt32:
    case NumberType::kUint32:
    case NumberType::kFloat32:
      return 4;
    default:
      return 8;
  }
}
HEADRACE_CONVERT_INLINE constexpr bool is_float(NumberType type) noexcept { return type >= NumberType::kFloat16; }
HEADRACE_CONVERT_INLINE constexpr bool is_unsigned(NumberType type) noexcept {
  return type == NumberType::kBool || (type >= NumberType::kUint8 && type <= NumberType::kUint64);
}
// Whether float32 represents every value exactly.
HEADRACE_CONVERT_INLINE constexpr bool fits_float(NumberType type) noexcept {
  return number_bytes(type) <= 2 || type == NumberType::kFloat32;
}

struct Conversion {
  NumberType from = NumberType::kNone;
  NumberType to = NumberType::kNone;  // never kBool
  bool scaled = false;
  bool fill_to_nan = false;      // `to` is a floating type
  double scale = 1, offset = 0;  // finite
  std::uint64_t fill_bits = 0;   // the bytes of the stored fill value, little-endian, zero-extended

  bool active() const noexcept { return to != NumberType::kNone; }
  bool operator==(const Conversion&) const = default;
};

// The type that holds the value during conversion.
enum class WorkType : std::uint8_t { kFloat, kDouble, kSigned, kUnsigned };

HEADRACE_CONVERT_INLINE WorkType work_type(const Conversion& c) noexcept {
  if (c.scaled) return fits_float(c.from) && fits_float(c.to) ? WorkType::kFloat : WorkType::kDouble;
  if (!is_float(c.from) && !is_float(c.to)) return is_unsigned(c.from) ? WorkType::kUnsigned : WorkType::kSigned;
  return fits_float(c.from) ? WorkType::kFloat : WorkType::kDouble;
}

namespace convert {

// ---- bits ----

template <NumberType kType>
struct RawOf {
  using type = std::conditional_t<
      number_bytes(kType) == 1, std::uint8_t,
      std::conditional_t<number_bytes(kType) == 2, std::uint16_t,
                         std::conditional_t<number_bytes(kType) == 4, std::uint32_t, std::uint64_t>>>;
};
template <NumberType kType>
using Raw = typename RawOf<kType>::type;

template <NumberType kType>
using Integer = std::conditional_t<is_unsigned(kType), Raw<kType>, std::make_signed_t<Raw<kType>>>;

// std::numeric_limits as constants, since device code may not call its functions.
template <class T>
inline constexpr T kLowest = std::numeric_limits<T>::min();
template <class T>
inline constexpr T kHighest = std::numeric_limits<T>::max();

template <class To, class From>
HEADRACE_CONVERT_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline constexpr std::uint32_t kFloatNan = 0x7fc00000u;
inline constexpr std::uint64_t kDoubleNan = 0x7ff8000000000000ull;

template <class W>
HEADRACE_CONVERT_INLINE W quiet_nan() {
  if constexpr (sizeof(W) == 4) {
    return bits_as<W>(kFloatNan);
  } else {
    return bits_as<W>(kDoubleNan);
  }
}

// ---- the 16-bit formats, branch-free so that the host's loops vectorise ----

HEADRACE_CONVERT_INLINE float float_of_half(std::uint16_t raw) {
#if defined(__CUDA_ARCH__)
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(raw));
  return out;
#else
  const std::uint32_t magnitude = raw & 0x7fffu, mantissa = raw & 0x3ffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(raw & 0x8000u) << 16;
  const std::uint32_t rebias = magnitude >= 0x7c00u ? 224u << 23 : 112u << 23;
  const std::uint32_t normal = (magnitude << 13) + rebias;
  const std::uint32_t subnormal = bits_as<std::uint32_t>(static_cast<float>(static_cast<int>(mantissa)) * 0x1p-24f);
  return bits_as<float>((magnitude < 0x400u ? subnormal : normal) | sign);
#endif
}

HEADRACE_CONVERT_INLINE std::uint16_t half_of_float(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
  return value != value ? static_cast<std::uint16_t>(0x7e00) : out;
#else
  const std::uint32_t bits = bits_as<std::uint32_t>(value), magnitude = bits & 0x7fffffffu;
  // Adding half a unit, less the tie, carries into the exponent by itself, up to infinity.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14, the last bit of the sum with 0.5 lines up with float16's subnormals.
  const std::uint32_t subnormal = bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t out = magnitude < 0x38800000u ? subnormal : normal;
  out = magnitude >= 0x47800000u ? 0x7c00u : out;
  out |= (bits >> 16) & 0x8000u;
  return static_cast<std::uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : out);
#endif
}

HEADRACE_CONVERT_INLINE float float_of_bfloat(std::uint16_t raw) {
  return bits_as<float>(static_cast<std::uint32_t>(raw) << 16);
}

HEADRACE_CONVERT_INLINE std::uint16_t bfloat_of_float(float value) {
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  const std::uint32_t out = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : out);
}

// Rounds to odd: of the two neighbours of an inexact value, returns the one whose last bit is set. Rounding that to a
// format with at least two bits fewer gives the same as rounding the value itself (Boldo and Melquiond, "Emulation of
// FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
HEADRACE_CONVERT_INLINE float odd_float(double value) {
  const float near = static_cast<float>(value);
  const double back = static_cast<double>(near);
  const std::uint32_t bits = bits_as<std::uint32_t>(near);
  const double magnitude = value < 0 ? -value : value, back_magnitude = back < 0 ? -back : back;
  const std::uint32_t other = back_magnitude > magnitude ? bits - 1 : bits + 1;
  const bool inexact = back < value || back > value;  // false for NaN
  return bits_as<float>(inexact && (bits & 1u) == 0 ? other : bits);
}

// The same from 64 bits to float64; valid for target formats of at most 40 bits.
HEADRACE_CONVERT_INLINE double odd_double(std::uint64_t magnitude) {
  const bool large = (magnitude >> 53) != 0;
  const std::uint64_t shifted = (magnitude >> 11) | ((magnitude & 0x7ffu) != 0 ? 1u : 0u);
  return static_cast<double>(static_cast<std::int64_t>(large ? shifted : magnitude)) * (large ? 2048.0 : 1.0);
}

// ---- from storage to the value ----

template <NumberType kFrom, class W>
HEADRACE_CONVERT_INLINE W widen(Raw<kFrom> raw) {
  if constexpr (kFrom == NumberType::kBool) {
    return raw != 0 ? W(1) : W(0);
  } else if constexpr (kFrom == NumberType::kFloat16) {
    return static_cast<W>(float_of_half(raw));
  } else if constexpr (kFrom == NumberType::kBfloat16) {
    return static_cast<W>(float_of_bfloat(raw));
  } else if constexpr (kFrom == NumberType::kFloat32) {
    return static_cast<W>(bits_as<float>(raw));
  } else if constexpr (kFrom == NumberType::kFloat64) {
    return static_cast<W>(bits_as<double>(raw));
  } else if constexpr (number_bytes(kFrom) < 4) {
    return static_cast<W>(static_cast<std::int32_t>(static_cast<Integer<kFrom>>(raw)));
  } else {
    return static_cast<W>(static_cast<Integer<kFrom>>(raw));
  }
}

// 64-bit integers that are rounded again later use rounding to odd.
template <NumberType kFrom>
HEADRACE_CONVERT_INLINE double widen_odd(Raw<kFrom> raw) {
  if constexpr (kFrom == NumberType::kInt64) {
    const bool negative = static_cast<std::int64_t>(raw) < 0;
    const double magnitude = odd_double(negative ? 0 - raw : raw);
    return negative ? -magnitude : magnitude;
  } else if constexpr (kFrom == NumberType::kUint64) {
    return odd_double(raw);
  } else {
    return widen<kFrom, double>(raw);
  }
}

HEADRACE_CONVERT_INLINE bool rounds_twice(const Conversion& c) {
  return !c.scaled && c.to != NumberType::kFloat64 && is_float(c.to);
}

template <NumberType kFrom>
HEADRACE_CONVERT_INLINE bool is_fill(Raw<kFrom> raw, Raw<kFrom> fill) {
  if constexpr (kFrom == NumberType::kFloat64) {
    return bits_as<double>(raw) == bits_as<double>(fill);
  } else if constexpr (is_float(kFrom)) {
    return widen<kFrom, float>(raw) == widen<kFrom, float>(fill);
  } else {
    return raw == fill;
  }
}

// ---- scale and offset: two operations, each rounded; never fused ----

HEADRACE_CONVERT_INLINE float scaled(float value, float scale, float offset) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(value, scale), offset);
#else
  return value * scale + offset;
#endif
}
HEADRACE_CONVERT_INLINE double scaled(double value, double scale, double offset) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(__dmul_rn(value, scale), offset);
#else
  return value * scale + offset;
#endif
}

// ---- from the value to the tensor ----

// Both bounds of every integer type are exact powers of two in W: kEnd is the first value that does not fit.
template <NumberType kTo, class W>
HEADRACE_CONVERT_INLINE Integer<kTo> truncated(W value) {
  using T = Integer<kTo>;
  constexpr T kLow = kLowest<T>, kHigh = kHighest<T>;
  constexpr W kEnd = static_cast<W>(kHigh / 2 + 1) * W(2), kBegin = static_cast<W>(kLow);
  const bool inside = value > kBegin && value < kEnd;
  const W safe = inside ? value : W(0);
  T out;
  if constexpr (sizeof(T) < 4) {
    out = static_cast<T>(static_cast<std::int32_t>(safe));
  } else {
    out = static_cast<T>(safe);
  }
  out = value >= kEnd ? kHigh : out;
  return value <= kBegin ? kLow : out;
}

template <NumberType kTo, class W>
HEADRACE_CONVERT_INLINE Raw<kTo> narrow(W value) {
  if constexpr (std::is_integral_v<W>) {
    using T = Integer<kTo>;
    constexpr T kLow = kLowest<T>, kHigh = kHighest<T>;
    if constexpr (std::is_signed_v<W>) {
      if constexpr (!std::is_signed_v<T> || sizeof(T) < sizeof(W)) {
        if (value < static_cast<W>(kLow)) return static_cast<Raw<kTo>>(kLow);
      }
      if constexpr (sizeof(T) < sizeof(W)) {
        if (value > static_cast<W>(kHigh)) return static_cast<Raw<kTo>>(kHigh);
      }
    } else if constexpr (static_cast<std::uint64_t>(kHigh) < ~std::uint64_t{0}) {
      if (value > static_cast<W>(kHigh)) return static_cast<Raw<kTo>>(kHigh);
    }
    return static_cast<Raw<kTo>>(static_cast<T>(value));
  } else if constexpr (kTo == NumberType::kFloat16) {
    if constexpr (sizeof(W) == 8) {
      return half_of_float(odd_float(value));
    } else {
      return half_of_float(value);
    }
  } else if constexpr (kTo == NumberType::kBfloat16) {
    if constexpr (sizeof(W) == 8) {
      return bfloat_of_float(odd_float(value));
    } else {
      return bfloat_of_float(value);
    }
  } else if constexpr (kTo == NumberType::kFloat32) {
    return value != value ? kFloatNan : bits_as<std::uint32_t>(static_cast<float>(value));
  } else if constexpr (kTo == NumberType::kFloat64) {
    return value != value ? kDoubleNan : bits_as<std::uint64_t>(static_cast<double>(value));
  } else {
    return static_cast<Raw<kTo>>(truncated<kTo>(value));
  }
}

// Calls visit.operator()<type>() with `type` as a compile-time constant.
template <class Visitor>
HEADRACE_CONVERT_INLINE auto with_source(NumberType type, Visitor&& visit) {
  switch (type) {
    case NumberType::kBool:
      return visit.template operator()<NumberType::kBool>();
    case NumberType::kInt8:
      return visit.template operator()<NumberType::kInt8>();
    case NumberType::kInt16:
      return visit.template operator()<NumberType::kInt16>();
    case NumberType::kInt32:
      return visit.template operator()<NumberType::kInt32>();
    case NumberType::kInt64:
      return visit.template operator()<NumberType::kInt64>();
    case NumberType::kUint8:
      return visit.template operator()<NumberType::kUint8>();
    case NumberType::kUint16:
      return visit.template operator()<NumberType::kUint16>();
    case NumberType::kUint32:
      return visit.template operator()<NumberType::kUint32>();
    case NumberType::kUint64:
      return visit.template operator()<NumberType::kUint64>();
    case NumberType::kFloat16:
      return visit.template operator()<NumberType::kFloat16>();
    case NumberType::kBfloat16:
      return visit.template operator()<NumberType::kBfloat16>();
    case NumberType::kFloat32:
      return visit.template operator()<NumberType::kFloat32>();
    default:
      return visit.template operator()<NumberType::kFloat64>();
  }
}
template <class Visitor>
HEADRACE_CONVERT_INLINE auto with_target(NumberType type, Visitor&& visit) {
  return with_source(type == NumberType::kBool ? NumberType::kUint8 : type, [&]<NumberType kType>() {
    // kBool is never a target; this case only satisfies the compiler.
    return visit.template operator() < kType == NumberType::kBool ? NumberType::kUint8 : kType > ();
  });
}

}  // namespace convert
}  // namespace headrace::device
