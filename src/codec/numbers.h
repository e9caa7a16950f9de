// The numbers that filters store: NumPy's integers and floats in either byte order, with NumPy's
// conversions between them.
//
// Everything works on bit patterns and gives the same result on every processor. Where C++ leaves the result open
// (floats beyond an integer's range, the bits of a NaN), the code spells out what x86 (NumPy's wheels) produces. The
// same code runs on the GPU, whose own conversions make all NaNs equal.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define HEADRACE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HEADRACE_HOST_DEVICE inline
#endif

namespace headrace::codec {

enum class Number : std::uint8_t {
  kBool,  // one byte; nonzero is true
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
};

struct Element {
  Number number = Number::kUint8;
  bool big_endian = false;
  friend bool operator==(const Element&, const Element&) = default;
};

HEADRACE_HOST_DEVICE constexpr bool is_float(Number n) { return n >= Number::kFloat16; }
HEADRACE_HOST_DEVICE constexpr bool is_signed_integer(Number n) { return n >= Number::kInt8 && n <= Number::kInt64; }
HEADRACE_HOST_DEVICE constexpr unsigned width_bytes(Number n) {
  return n == Number::kBool   ? 1u
         : is_float(n)        ? 2u << (static_cast<unsigned>(n) - static_cast<unsigned>(Number::kFloat16))
         : n < Number::kUint8 ? 1u << (static_cast<unsigned>(n) - static_cast<unsigned>(Number::kInt8))
                              : 1u << (static_cast<unsigned>(n) - static_cast<unsigned>(Number::kUint8));
}

namespace numbers {

HEADRACE_HOST_DEVICE double as_double(std::uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
HEADRACE_HOST_DEVICE std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
HEADRACE_HOST_DEVICE float as_float(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
HEADRACE_HOST_DEVICE std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

HEADRACE_HOST_DEVICE constexpr unsigned mantissa_bits(Number n) {
  return n == Number::kFloat16 ? 10 : n == Number::kFloat32 ? 23 : 52;
}
HEADRACE_HOST_DEVICE constexpr std::uint64_t sign_bit(Number n) { return std::uint64_t{1} << (8 * width_bytes(n) - 1); }
HEADRACE_HOST_DEVICE constexpr std::uint64_t infinity(Number n) {
  return sign_bit(n) - (std::uint64_t{1} << mantissa_bits(n));
}
HEADRACE_HOST_DEVICE constexpr bool is_nan(std::uint64_t bits, Number n) {
  return (bits & (sign_bit(n) - 1)) > infinity(n);
}
HEADRACE_HOST_DEVICE constexpr std::uint64_t quiet(std::uint64_t bits, Number n) {
  return bits | std::uint64_t{1} << (mantissa_bits(n) - 1);
}
// The NaN that x86 produces for 0 / 0.
HEADRACE_HOST_DEVICE constexpr std::uint64_t default_nan(Number n) { return quiet(sign_bit(n) | infinity(n), n); }

// Rounded half to even. REQUIRES: not NaN.
HEADRACE_HOST_DEVICE std::uint64_t half_of_double(std::uint64_t bits) {
  const std::uint64_t sign = bits >> 48 & 0x8000;
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  if (magnitude >= 0x40EFFE0000000000) return sign | 0x7C00;  // 65520 and more
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent < -25) return sign;
  const std::uint64_t mantissa = (magnitude & 0xFFFFFFFFFFFFF) | std::uint64_t{1} << 52;
  const int shift = exponent >= -14 ? 42 : 28 - exponent;
  std::uint64_t kept = mantissa >> shift;
  const std::uint64_t rest = mantissa - (kept << shift), middle = std::uint64_t{1} << (shift - 1);
  kept += rest > middle || (rest == middle && (kept & 1) != 0) ? 1 : 0;
  // A carry out of the mantissa correctly increments the exponent.
  return sign | (exponent >= -14 ? (static_cast<std::uint64_t>(exponent + 14) << 10) + kept : kept);
}

// Exact. REQUIRES: not NaN.
HEADRACE_HOST_DEVICE double double_of_half(std::uint64_t bits) {
  const std::uint64_t magnitude = bits & 0x7FFF;
  double value;
  if (magnitude < 0x400) {
    value = static_cast<double>(magnitude) * 0x1p-24;
  } else if (magnitude == 0x7C00) {
    value = as_double(0x7FF0000000000000);
  } else {
    value = as_double((magnitude << 42) + (std::uint64_t{1008} << 52));
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Exact. REQUIRES: a float that is not NaN.
HEADRACE_HOST_DEVICE double double_of(std::uint64_t bits, Number n) {
  return n == Number::kFloat16   ? double_of_half(bits)
         : n == Number::kFloat32 ? static_cast<double>(as_float(static_cast<std::uint32_t>(bits)))
                                 : as_double(bits);
}
// Rounded half to even. REQUIRES: not NaN, a float type.
HEADRACE_HOST_DEVICE std::uint64_t float_bits(double value, Number to) {
  return to == Number::kFloat16   ? half_of_double(bits_of(value))
         : to == Number::kFloat32 ? bits_of(static_cast<float>(value))
                                  : bits_of(value);
}

// Keeps the sign and the upper bits of the payload. Conversions between binary32 and binary64 are instructions, which
// quiet the NaN; those of binary16 are NumPy's own code, which does not.
HEADRACE_HOST_DEVICE std::uint64_t convert_nan(std::uint64_t bits, Number from, Number to) {
  const std::uint64_t sign = (bits & sign_bit(from)) != 0 ? sign_bit(to) : 0;
  std::uint64_t payload = bits & ((std::uint64_t{1} << mantissa_bits(from)) - 1);
  const int shift = static_cast<int>(mantissa_bits(to)) - static_cast<int>(mantissa_bits(from));
  payload = shift >= 0 ? payload << shift : payload >> -shift;
  const bool halves = from == Number::kFloat16 || to == Number::kFloat16;
  if (from != to && !halves) payload |= std::uint64_t{1} << (mantissa_bits(to) - 1);
  if (payload == 0) payload = 1;
  return sign | infinity(to) | payload;
}

// Truncates towards zero; INT64_MIN if it does not fit. [cvttsd2si]
HEADRACE_HOST_DEVICE std::int64_t truncate64(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? static_cast<std::int64_t>(value) : INT64_MIN;
}
HEADRACE_HOST_DEVICE std::int64_t truncate32(double value) {
  return value > -2147483649.0 && value < 2147483648.0 ? static_cast<std::int64_t>(value) : INT32_MIN;
}

// A float's value as an integer of type `to`; out of range, what x86 does.
HEADRACE_HOST_DEVICE std::uint64_t integer_of_double(double value, Number to) {
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  switch (to) {
    case Number::kInt64:
      return static_cast<std::uint64_t>(truncate64(value));
    case Number::kUint64:
      return value >= 0x1p63 ? static_cast<std::uint64_t>(truncate64(value - 0x1p63)) ^ kTop
                             : static_cast<std::uint64_t>(truncate64(value));
    case Number::kUint32:
      return value >= 0x1p31 ? static_cast<std::uint64_t>(truncate32(value - 0x1p31)) ^ 0x80000000
                             : static_cast<std::uint64_t>(truncate32(value));
    default:
      return static_cast<std::uint64_t>(truncate32(value));
  }
}

HEADRACE_HOST_DEVICE std::uint64_t low_bits(std::uint64_t value, Number n) {
  const unsigned unused = 64 - 8 * width_bytes(n);
  return value << unused >> unused;
}
// The value of an integer or bool as 64 bits: sign-extended if signed, and true is 1.
HEADRACE_HOST_DEVICE std::uint64_t extend(std::uint64_t bits, Number from) {
  if (from == Number::kBool) return bits != 0 ? 1 : 0;
  const unsigned unused = 64 - 8 * width_bytes(from);
  return is_signed_integer(from) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused)
                                 : bits;
}

HEADRACE_HOST_DEVICE std::uint64_t float_of_integer(std::uint64_t value, bool is_signed, Number to) {
  if (to == Number::kFloat64) {
    return bits_of(is_signed ? static_cast<double>(static_cast<std::int64_t>(value)) : static_cast<double>(value));
  }
  const float narrow = is_signed ? static_cast<float>(static_cast<std::int64_t>(value)) : static_cast<float>(value);
  return to == Number::kFloat32 ? bits_of(narrow) : half_of_double(bits_of(static_cast<double>(narrow)));
}

// numpy's astype(): zero-extended bits of type `from` to zero-extended bits of type `to`.
HEADRACE_HOST_DEVICE std::uint64_t convert(std::uint64_t bits, Number from, Number to) {
  if (from == to) return bits;
  std::uint64_t out;
  if (is_float(from)) {
    if (to == Number::kBool) return (bits & (sign_bit(from) - 1)) != 0 ? 1 : 0;
    if (is_nan(bits, from)) {
      if (is_float(to)) return convert_nan(bits, from, to);
      out = integer_of_double(as_double(0x7FF8000000000000), to);
    } else {
      const double value = double_of(bits, from);
      if (is_float(to)) return float_bits(value, to);
      out = integer_of_double(value, to);
    }
  } else {
    out = extend(bits, from);
    if (is_float(to)) return float_of_integer(out, is_signed_integer(from), to);
    if (to == Number::kBool) return out != 0 ? 1 : 0;
  }
  return low_bits(out, to);
}

// The type in which NumPy computes with operands of both types. [numpy.promote_types]
HEADRACE_HOST_DEVICE Number promote(Number a, Number b) {
  if (a == b || b == Number::kBool) return a;
  if (a == Number::kBool) return b;
  if (is_float(a) && is_float(b)) return a > b ? a : b;
  if (is_float(a) || is_float(b)) {
    const Number type = is_float(a) ? a : b;
    const unsigned width = width_bytes(is_float(a) ? b : a);
    const Number least = width == 1 ? Number::kFloat16 : width == 2 ? Number::kFloat32 : Number::kFloat64;
    return type > least ? type : least;
  }
  if (is_signed_integer(a) == is_signed_integer(b)) return a > b ? a : b;
  const Number with_sign = is_signed_integer(a) ? a : b, without = is_signed_integer(a) ? b : a;
  if (width_bytes(with_sign) > width_bytes(without)) return with_sign;
  switch (width_bytes(without)) {
    case 1:
      return Number::kInt16;
    case 2:
      return Number::kInt32;
    case 4:
      return Number::kInt64;
    default:
      return Number::kFloat64;
  }
}

enum class Arithmetic : std::uint8_t { kAdd, kDivide };

// REQUIRES: binary32 or binary64.
HEADRACE_HOST_DEVICE std::uint64_t combine_wide(Arithmetic op, std::uint64_t a, std::uint64_t b, Number type) {
  if (is_nan(a, type)) return quiet(a, type);
  if (is_nan(b, type)) return quiet(b, type);
  std::uint64_t out;
  if (type == Number::kFloat32) {
    const float x = as_float(static_cast<std::uint32_t>(a)), y = as_float(static_cast<std::uint32_t>(b));
#if defined(__CUDA_ARCH__)
    out = bits_of(op == Arithmetic::kAdd ? __fadd_rn(x, y) : __fdiv_rn(x, y));
#else
    out = bits_of(op == Arithmetic::kAdd ? x + y : x / y);
#endif
  } else {
    const double x = as_double(a), y = as_double(b);
#if defined(__CUDA_ARCH__)
    out = bits_of(op == Arithmetic::kAdd ? __dadd_rn(x, y) : __ddiv_rn(x, y));
#else
    out = bits_of(op == Arithmetic::kAdd ? x + y : x / y);
#endif
  }
  return is_nan(out, type) ? default_nan(type) : out;
}

// a + b or a / b in the arithmetic of a float type, as x86 and NumPy compute it: halves are computed as binary32.
HEADRACE_HOST_DEVICE std::uint64_t combine(Arithmetic op, std::uint64_t a, std::uint64_t b, Number type) {
  if (type == Number::kFloat16) {
    // Of two NaNs, the sum is the second, as NumPy's compiled addition of halves behaves.
    if (op == Arithmetic::kAdd && is_nan(b, type)) a = b;
    const std::uint64_t wide =
        combine_wide(op, convert(a, type, Number::kFloat32), convert(b, type, Number::kFloat32), Number::kFloat32);
    return convert(wide, Number::kFloat32, type);
  }
  return combine_wide(op, a, b, type);
}

// Loads from and stores to memory of any alignment. Unused bits are zero on load, and ignored on store.
HEADRACE_HOST_DEVICE std::uint64_t load_bits(const unsigned char* at, Element element) {
  const unsigned width = width_bytes(element.number);
  std::uint64_t bits = 0;
  for (unsigned i = 0; i < width; ++i) {
    bits |= static_cast<std::uint64_t>(at[i]) << (8 * (element.big_endian ? width - 1 - i : i));
  }
  return bits;
}
HEADRACE_HOST_DEVICE void store_bits(unsigned char* at, Element element, std::uint64_t bits) {
  const unsigned width = width_bytes(element.number);
  for (unsigned i = 0; i < width; ++i) {
    at[i] = static_cast<unsigned char>(bits >> (8 * (element.big_endian ? width - 1 - i : i)));
  }
}

template <class Word>
HEADRACE_HOST_DEVICE Word swapped(Word word, bool swap) {
  if (!swap) return word;
  Word out = 0;
  for (unsigned i = 0; i < sizeof(Word); ++i) {
    out =
        static_cast<Word>(static_cast<std::uint64_t>(out) << 8 | (static_cast<std::uint64_t>(word) >> (8 * i) & 0xFF));
  }
  return out;
}

// `aligned`: the address is a multiple of the element's width.
HEADRACE_HOST_DEVICE std::uint64_t load(const unsigned char* at, Element element, bool aligned) {
  if (aligned) {
    switch (width_bytes(element.number)) {
      case 2:
        return swapped(*reinterpret_cast<const std::uint16_t*>(at), element.big_endian);
      case 4:
        return swapped(*reinterpret_cast<const std::uint32_t*>(at), element.big_endian);
      case 8:
        return swapped(*reinterpret_cast<const std::uint64_t*>(at), element.big_endian);
      default:
        return *at;
    }
  }
  return load_bits(at, element);
}
HEADRACE_HOST_DEVICE void store(unsigned char* at, Element element, bool aligned, std::uint64_t bits) {
  if (aligned) {
    switch (width_bytes(element.number)) {
      case 2:
        *reinterpret_cast<std::uint16_t*>(at) = swapped(static_cast<std::uint16_t>(bits), element.big_endian);
        return;
      case 4:
        *reinterpret_cast<std::uint32_t*>(at) = swapped(static_cast<std::uint32_t>(bits), element.big_endian);
        return;
      case 8:
        *reinterpret_cast<std::uint64_t*>(at) = swapped(bits, element.big_endian);
        return;
      default:
        *at = static_cast<unsigned char>(bits);
        return;
    }
  }
  store_bits(at, element, bits);
}
HEADRACE_HOST_DEVICE bool is_aligned(const void* at, unsigned width) {
  return reinterpret_cast<std::uintptr_t>(at) % width == 0;
}

}  // namespace numbers
}  // namespace headrace::codec
