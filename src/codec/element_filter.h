// ElementFilter: the operation that decodes one element of a filter, as a few plain words that can be passed to a GPU.
#pragma once

#include <array>
#include <cstddef>

#include "codec/numbers.h"

namespace headrace::codec {

struct ElementFilter {
  enum class Kind : std::uint8_t {
    kConvert,      // numpy's astype()
    kScale,        // numcodecs' fixedscaleoffset: stored / scale + offset as numpy computes it, then astype()
    kScaleOffset,  // Zarr v3's scale_offset: the same in the decoded type; results out of range are errors
    kCast,         // Zarr v3's cast_value: the rounded value; out of range is an error unless configured otherwise
  };
  enum class Rounding : std::uint8_t { kNearestEven, kTowardsZero, kTowardsPositive, kTowardsNegative, kNearestAway };
  enum class Range : std::uint8_t { kError, kClamp, kWrap };

  Kind kind = Kind::kConvert;
  Element stored, decoded;
  Rounding rounding = Rounding::kNearestEven;  // kCast
  Range range = Range::kError;                 // kCast
  // kScale, kScaleOffset: bits in the type used for the computation.
  std::uint64_t scale = 0, offset = 0;

  // The type in which kScale and kScaleOffset compute.
  HEADRACE_HOST_DEVICE Number arithmetic() const {
    if (kind == Kind::kScaleOffset) return decoded.number;
    return is_float(stored.number) ? stored.number : Number::kFloat64;
  }

  static constexpr std::size_t kWords = 3;
  std::array<std::uint64_t, kWords> pack() const {
    const auto byte = [](auto value, int at) { return static_cast<std::uint64_t>(value) << (8 * at); };
    return {byte(kind, 0) | byte(stored.number, 1) | byte(stored.big_endian, 2) | byte(decoded.number, 3) |
                byte(decoded.big_endian, 4) | byte(rounding, 5) | byte(range, 6),
            scale, offset};
  }
  static ElementFilter unpack(const std::uint64_t* words) {
    const auto byte = [&](int at) { return static_cast<std::uint8_t>(words[0] >> (8 * at)); };
    ElementFilter op;
    op.kind = static_cast<Kind>(byte(0));
    op.stored = {static_cast<Number>(byte(1)), byte(2) != 0};
    op.decoded = {static_cast<Number>(byte(3)), byte(4) != 0};
    op.rounding = static_cast<Rounding>(byte(5));
    op.range = static_cast<Range>(byte(6));
    op.scale = words[1];
    op.offset = words[2];
    return op;
  }
};

namespace numbers {

// Rounds to a whole number. REQUIRES: finite.
HEADRACE_HOST_DEVICE double round_to_integer(double value, ElementFilter::Rounding rounding) {
  const double magnitude = value < 0 ? -value : value;
  if (magnitude >= 0x1p52) return value;
  double whole = static_cast<double>(static_cast<std::int64_t>(magnitude));  // towards zero
  const double rest = magnitude - whole;
  bool up = false;
  switch (rounding) {
    case ElementFilter::Rounding::kNearestEven:
      up = rest > 0.5 || (rest == 0.5 && (static_cast<std::int64_t>(whole) & 1) != 0);
      break;
    case ElementFilter::Rounding::kTowardsZero:
      break;
    case ElementFilter::Rounding::kTowardsPositive:
      up = rest > 0 && value > 0;
      break;
    case ElementFilter::Rounding::kTowardsNegative:
      up = rest > 0 && value < 0;
      break;
    case ElementFilter::Rounding::kNearestAway:
      up = rest >= 0.5;
      break;
  }
  if (up) whole += 1;
  return value < 0 ? -whole : whole;
}

HEADRACE_HOST_DEVICE std::uint64_t lowest(Number n) {
  return is_signed_integer(n) ? static_cast<std::uint64_t>(INT64_MIN >> (64 - 8 * width_bytes(n))) : 0;
}
HEADRACE_HOST_DEVICE std::uint64_t highest(Number n) {
  return ~std::uint64_t{0} >> (64 - 8 * width_bytes(n) + (is_signed_integer(n) ? 1 : 0));
}
// `value` is 64 bits of an integer, negative if `is_signed` and its top bit is set.
HEADRACE_HOST_DEVICE bool below(std::uint64_t value, bool is_signed, Number n) {
  const bool negative = is_signed && value >> 63 != 0;
  return negative && (!is_signed_integer(n) || static_cast<std::int64_t>(value) < static_cast<std::int64_t>(lowest(n)));
}
HEADRACE_HOST_DEVICE bool above(std::uint64_t value, bool is_signed, Number n) {
  const bool negative = is_signed && value >> 63 != 0;
  return !negative && value > highest(n);
}

// REQUIRES: neither type is bool. False if the configuration says that the value is an error.
HEADRACE_HOST_DEVICE bool cast_value(const ElementFilter& op, std::uint64_t bits, std::uint64_t& out) {
  const Number from = op.stored.number, to = op.decoded.number;
  if (is_float(from)) {
    if (is_float(to)) {
      out = convert(bits, from, to);
      const bool finite = (bits & (sign_bit(from) - 1)) < infinity(from);
      const bool overflow = finite && (out & (sign_bit(to) - 1)) == infinity(to);
      return !overflow || op.range == ElementFilter::Range::kClamp;
    }
    if (is_nan(bits, from)) return false;
    double value = double_of(bits, from);
    const bool infinite = (bits & (sign_bit(from) - 1)) == infinity(from);
    if (!infinite) value = round_to_integer(value, op.rounding);
    const double top = is_signed_integer(to) ? as_double((std::uint64_t{1022} + 8 * width_bytes(to)) << 52)
                                             : as_double((std::uint64_t{1023} + 8 * width_bytes(to)) << 52);
    const bool high = value >= top, low = is_signed_integer(to) ? value < -top : value < 0;
    if (!high && !low) {
      out = low_bits(integer_of_double(value, is_signed_integer(to) ? Number::kInt64 : Number::kUint64), to);
      return true;
    }
    if (op.range == ElementFilter::Range::kClamp) {
      out = low_bits(high ? highest(to) : lowest(to), to);
      return true;
    }
    if (op.range != ElementFilter::Range::kWrap || infinite) return false;
    // Modulo 2^64: a double of 2^64 or more is a multiple of a power of two, and its low bits follow from its mantissa.
    const std::uint64_t magnitude = bits_of(value < 0 ? -value : value);
    const int exponent = static_cast<int>(magnitude >> 52) - 1075;
    const std::uint64_t mantissa = (magnitude & 0xFFFFFFFFFFFFF) | std::uint64_t{1} << 52;
    std::uint64_t whole = exponent >= 64 ? 0 : exponent >= 0 ? mantissa << exponent : mantissa >> -exponent;
    if (value < 0) whole = 0 - whole;
    out = low_bits(whole, to);
    return true;
  }
  const bool is_signed = is_signed_integer(from);
  const std::uint64_t value = extend(bits, from);
  if (is_float(to)) {
    out = float_of_integer(value, is_signed, to);
    const bool overflow = (out & (sign_bit(to) - 1)) == infinity(to);
    return !overflow || op.range == ElementFilter::Range::kClamp;
  }
  const bool low = below(value, is_signed, to), high = above(value, is_signed, to);
  if (!low && !high) {
    out = low_bits(value, to);
    return true;
  }
  if (op.range == ElementFilter::Range::kError) return false;
  out = low_bits(op.range == ElementFilter::Range::kWrap ? value : low ? lowest(to) : highest(to), to);
  return true;
}

// value / scale + offset in integers of `type`. False if that is not an integer or does not fit. REQUIRES: the scale is
// not zero; scale and offset are extended to 64 bits.
HEADRACE_HOST_DEVICE bool scale_integer(std::uint64_t bits, std::uint64_t scale, std::uint64_t offset, Number type,
                                        std::uint64_t& out) {
  const std::uint64_t value = extend(bits, type);
  if (!is_signed_integer(type)) {
    if (value % scale != 0) return false;
    const std::uint64_t sum = value / scale + offset;
    out = sum;
    return sum >= offset && sum <= highest(type);
  }
  const auto dividend = static_cast<std::int64_t>(value), divisor = static_cast<std::int64_t>(scale);
  const auto addend = static_cast<std::int64_t>(offset);
  if (divisor == -1 ? dividend == INT64_MIN : dividend % divisor != 0) return false;
  const std::int64_t quotient = divisor == -1 ? -dividend : dividend / divisor;
  const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(quotient) + offset);
  const bool overflow = (quotient < 0) == (addend < 0) && (sum < 0) != (quotient < 0);
  out = low_bits(static_cast<std::uint64_t>(sum), type);
  const auto fits = [&](std::int64_t x) {
    return x >= static_cast<std::int64_t>(lowest(type)) && x <= static_cast<std::int64_t>(highest(type));
  };
  return !overflow && fits(quotient) && fits(sum);
}

}  // namespace numbers

// `out`: the element's bits in native order, zero-extended. False if the element cannot be decoded.
HEADRACE_HOST_DEVICE bool apply(const ElementFilter& op, std::uint64_t bits, std::uint64_t& out) {
  switch (op.kind) {
    case ElementFilter::Kind::kConvert:
      out = numbers::convert(bits, op.stored.number, op.decoded.number);
      return true;
    case ElementFilter::Kind::kScale: {
      const Number type = op.arithmetic();
      const std::uint64_t value = numbers::convert(bits, op.stored.number, type);
      const std::uint64_t quotient = numbers::combine(numbers::Arithmetic::kDivide, value, op.scale, type);
      const std::uint64_t sum = numbers::combine(numbers::Arithmetic::kAdd, quotient, op.offset, type);
      out = numbers::convert(sum, type, op.decoded.number);
      return true;
    }
    case ElementFilter::Kind::kScaleOffset: {
      const Number type = op.decoded.number;
      if (!is_float(type)) return numbers::scale_integer(bits, op.scale, op.offset, type, out);
      const std::uint64_t quotient = numbers::combine(numbers::Arithmetic::kDivide, bits, op.scale, type);
      out = numbers::combine(numbers::Arithmetic::kAdd, quotient, op.offset, type);
      return true;
    }
    case ElementFilter::Kind::kCast:
      return numbers::cast_value(op, bits, out);
  }
  return false;
}

}  // namespace headrace::codec
