// A slow, obvious model of Conversion that uses exact arithmetic and search, and shares no code with what it judges. It
// needs a long double with at least 64 bits of precision, which represents every stored number exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "device/convert.h"

namespace headrace::testing {

using device::Conversion;
using device::NumberType;

inline constexpr NumberType kSourceTypes[] = {
    NumberType::kBool,     NumberType::kInt8,    NumberType::kInt16,  NumberType::kInt32,  NumberType::kInt64,
    NumberType::kUint8,    NumberType::kUint16,  NumberType::kUint32, NumberType::kUint64, NumberType::kFloat16,
    NumberType::kBfloat16, NumberType::kFloat32, NumberType::kFloat64};
inline constexpr NumberType kTargetTypes[] = {NumberType::kInt8,     NumberType::kInt16,   NumberType::kInt32,
                                              NumberType::kInt64,    NumberType::kUint8,   NumberType::kUint16,
                                              NumberType::kUint32,   NumberType::kUint64,  NumberType::kFloat16,
                                              NumberType::kBfloat16, NumberType::kFloat32, NumberType::kFloat64};

inline const char* name_of(NumberType type) {
  static const char* const kNames[] = {"none",   "bool",   "int8",   "int16",   "int32",    "int64",   "uint8",
                                       "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
  return kNames[static_cast<int>(type)];
}

template <class T>
T value_at(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

// The value of a 16-bit float with this many exponent bits.
inline long double small_float(std::uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1),
            mantissa = bits & ((1 << mantissa_bits) - 1);
  long double v = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    v = mantissa == 0 ? std::numeric_limits<long double>::infinity() : std::numeric_limits<long double>::quiet_NaN();
  } else if (exponent == 0) {
    v = std::ldexp(static_cast<long double>(mantissa), 1 - bias - mantissa_bits);
  } else {
    v = std::ldexp(static_cast<long double>(mantissa + (1 << mantissa_bits)), exponent - bias - mantissa_bits);
  }
  return bits & 0x8000 ? -v : v;
}

inline long double model_value(NumberType type, const std::byte* p) {
  switch (type) {
    case NumberType::kBool:
      return p[0] != std::byte{0} ? 1 : 0;
    case NumberType::kInt8:
      return value_at<std::int8_t>(p);
    case NumberType::kInt16:
      return value_at<std::int16_t>(p);
    case NumberType::kInt32:
      return value_at<std::int32_t>(p);
    case NumberType::kInt64:
      return static_cast<long double>(value_at<std::int64_t>(p));
    case NumberType::kUint8:
      return value_at<std::uint8_t>(p);
    case NumberType::kUint16:
      return value_at<std::uint16_t>(p);
    case NumberType::kUint32:
      return value_at<std::uint32_t>(p);
    case NumberType::kUint64:
      return static_cast<long double>(value_at<std::uint64_t>(p));
    case NumberType::kFloat16:
      return small_float(value_at<std::uint16_t>(p), 5);
    case NumberType::kBfloat16:
      return small_float(value_at<std::uint16_t>(p), 8);
    case NumberType::kFloat32:
      return value_at<float>(p);
    default:
      return value_at<double>(p);
  }
}

// Rounds to the nearest finite number of the format, ties to even. The value one step beyond the largest is infinity.
inline std::uint16_t nearest_small(long double v, int exponent_bits) {
  const std::uint16_t infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << (15 - exponent_bits));
  if (std::isnan(v)) return static_cast<std::uint16_t>(infinity | (1 << (14 - exponent_bits)));
  const std::uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  v = std::fabs(v);
  auto number = [&](std::uint32_t bits) {
    // Infinity's encoding is treated as the number one step beyond the largest.
    if (bits < infinity) return small_float(static_cast<std::uint16_t>(bits), exponent_bits);
    return std::ldexp(1.0L, 1 << (exponent_bits - 1));
  };
  std::uint32_t low = 0, high = infinity;
  if (v >= number(high)) return static_cast<std::uint16_t>(infinity | sign);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (number(middle) <= v ? low : high) = middle;
  }
  const long double below = v - number(low), above = number(high) - v;
  const std::uint32_t best = below < above ? low : above < below ? high : low % 2 == 0 ? low : high;
  return static_cast<std::uint16_t>(best | sign);
}

template <class T>
T model_integer(long double v) {
  if (std::isnan(v)) return 0;
  v = std::trunc(v);
  if (v <= static_cast<long double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (v >= static_cast<long double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(v);
}

inline bool in_24_bits(NumberType type) {
  return type != NumberType::kInt32 && type != NumberType::kUint32 && type != NumberType::kInt64 &&
         type != NumberType::kUint64 && type != NumberType::kFloat64;
}

inline void model_convert(const Conversion& c, const std::byte* from, std::byte* to) {
  long double v = model_value(c.from, from);
  std::byte fill[8];
  std::memcpy(fill, &c.fill_bits, 8);
  const bool missing =
      c.fill_to_nan && v == model_value(c.from, fill) && (c.from != NumberType::kBool || from[0] == fill[0]);
  if (missing) {
    v = std::numeric_limits<long double>::quiet_NaN();
  } else if (c.scaled && in_24_bits(c.from) && in_24_bits(c.to)) {
    volatile float product = static_cast<float>(v) * static_cast<float>(c.scale);
    volatile float sum = product + static_cast<float>(c.offset);
    v = sum;
  } else if (c.scaled) {
    volatile double product = static_cast<double>(v) * c.scale;
    volatile double sum = product + c.offset;
    v = sum;
  }
  auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
  switch (c.to) {
    case NumberType::kInt8:
      return put(model_integer<std::int8_t>(v));
    case NumberType::kInt16:
      return put(model_integer<std::int16_t>(v));
    case NumberType::kInt32:
      return put(model_integer<std::int32_t>(v));
    case NumberType::kInt64:
      return put(model_integer<std::int64_t>(v));
    case NumberType::kUint8:
      return put(model_integer<std::uint8_t>(v));
    case NumberType::kUint16:
      return put(model_integer<std::uint16_t>(v));
    case NumberType::kUint32:
      return put(model_integer<std::uint32_t>(v));
    case NumberType::kUint64:
      return put(model_integer<std::uint64_t>(v));
    case NumberType::kFloat16:
      return put(nearest_small(v, 5));
    case NumberType::kBfloat16:
      return put(nearest_small(v, 8));
    case NumberType::kFloat32:
      return std::isnan(v) ? put(std::uint32_t{0x7fc00000}) : put(static_cast<float>(v));
    default:
      return std::isnan(v) ? put(std::uint64_t{0x7ff8000000000000}) : put(static_cast<double>(v));
  }
}

// Packed numbers of the type: all of them for 8 and 16 bits. For wider types: the limits of every range, neighbours of
// the points where narrower formats round, and random ones.
inline std::vector<std::byte> notable_numbers(NumberType type, std::uint64_t seed) {
  std::vector<std::byte> out;
  auto put = [&](auto value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof(value));
  };
  const std::uint32_t size = device::number_bytes(type);
  if (size <= 2) {
    for (std::uint32_t v = 0; v < (size == 1 ? 256u : 65536u); ++v)
      size == 1 ? put(static_cast<std::uint8_t>(v)) : put(static_cast<std::uint16_t>(v));
    return out;
  }
  std::mt19937_64 rng(seed);
  auto near = [&](double v) {
    if (type == NumberType::kFloat32) {
      const auto f = static_cast<float>(v);
      for (float x : {f, std::nextafter(f, -INFINITY), std::nextafter(f, INFINITY)}) put(x), put(-x);
    } else {
      for (double x : {v, std::nextafter(v, -INFINITY), std::nextafter(v, INFINITY)}) put(x), put(-x);
    }
  };
  if (device::is_float(type)) {
    for (int exponent_bits : {5, 8}) {
      for (std::uint32_t bits = 0; bits < 0x7fff; bits += 1 + static_cast<std::uint32_t>(rng() % 40)) {
        const long double a = small_float(static_cast<std::uint16_t>(bits), exponent_bits),
                          b = small_float(static_cast<std::uint16_t>(bits + 1), exponent_bits);
        if (!std::isfinite(a) || !std::isfinite(b)) continue;
        near(static_cast<double>(a));
        near(static_cast<double>((a + b) / 2));
      }
    }
    for (int bits : {7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 127, 128}) {
      near(std::ldexp(1.0, bits));
      near(std::ldexp(1.0, bits) - 1);
      near(std::ldexp(1.0, bits) - 0.5);
    }
    for (double v :
         {0.0, 0.5, 1.0, 1.5, 65504.0, 65519.0, 65520.0, 65536.0, 3.4028234663852886e38, 3.4028235677973366e38,
          3.3961775292304007e38, 1e300, 5e-324, 2.2250738585072014e-308, 1.401298464324817e-45, 7.006492321624085e-46,
          1e-40, 5.960464477539063e-08, 2.9802322387695312e-08}) {
      near(v);
    }
    near(std::numeric_limits<double>::infinity());
    near(std::numeric_limits<double>::quiet_NaN());
    if (type == NumberType::kFloat64) put(std::uint64_t{0xfff0000000000001});
    if (type == NumberType::kFloat32) put(std::uint32_t{0xff800001}), put(std::uint32_t{0x7f812345});
    for (int i = 0; i < 3000; ++i) type == NumberType::kFloat32 ? put(static_cast<std::uint32_t>(rng())) : put(rng());
    for (int i = 0; i < 3000; ++i) near(std::ldexp(static_cast<double>(rng()), static_cast<int>(rng() % 100) - 90));
    return out;
  }
  auto integer = [&](std::uint64_t v) { size == 4 ? put(static_cast<std::uint32_t>(v)) : put(v); };
  for (int bit = 0; bit < 64; ++bit) {
    for (std::int64_t d = -3; d <= 3; ++d) {
      const std::uint64_t v = (std::uint64_t{1} << bit) + static_cast<std::uint64_t>(d);
      integer(v), integer(0 - v);
      for (int half : {8, 9, 11, 12, 24, 25, 53, 54}) {  // rounding ties of every format
        if (bit < half) continue;
        const std::uint64_t tie = (rng() >> (64 - half) << (bit - half) << 1) + (std::uint64_t{1} << bit) +
                                  (std::uint64_t{1} << (bit - half));
        integer(tie + static_cast<std::uint64_t>(d)), integer(0 - tie + static_cast<std::uint64_t>(d));
      }
    }
  }
  for (int i = 0; i < 4000; ++i) integer(rng() >> rng() % 64);
  return out;
}

// A random pair of types, often with scaling, or with a fill value that occurs in the data.
inline Conversion random_conversion(std::mt19937_64& rng) {
  Conversion c;
  c.from = kSourceTypes[rng() % std::size(kSourceTypes)];
  c.to = kTargetTypes[rng() % std::size(kTargetTypes)];
  if (rng() % 2 == 0) {
    c.scaled = true;
    c.scale = std::ldexp(static_cast<double>(rng() % 20000) - 10000, static_cast<int>(rng() % 24) - 20);
    c.offset = std::ldexp(static_cast<double>(rng() % 20000) - 10000, static_cast<int>(rng() % 20) - 14);
  }
  if (device::is_float(c.to) && rng() % 3 == 0) {
    c.fill_to_nan = true;
    c.fill_bits = rng() % 4;
    if (device::number_bytes(c.from) == 1 && rng() % 2 == 0) c.fill_bits = rng() % 256;
  }
  return c;
}

}  // namespace headrace::testing
