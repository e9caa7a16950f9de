#include "zarr/metadata/number_bits.h"

#include <bit>

namespace headrace::zarr {
namespace {

// Rounds significand * 2^(exponent - 63) to `format`; the top bit of `significand` is set, so the value lies in
// [2^exponent, 2^(exponent + 1)).
std::uint64_t round_to(std::uint64_t significand, int exponent, bool negative, FloatFormat format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint64_t sign = std::uint64_t{negative} << (format.exponent_bits + format.mantissa_bits);
  const int biased = exponent + bias;
  int drop = 63 - format.mantissa_bits;  // bits of the significand that do not fit
  if (biased <= 0) drop += 1 - biased;   // subnormal: the exponent stays, the significand moves down
  if (drop > 64) return sign;            // below half of the smallest subnormal
  std::uint64_t kept = drop == 64 ? 0 : significand >> drop;
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t rest = drop == 64 ? significand : significand & ((half << 1) - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // `kept` holds the implicit bit where the number is normal; adding lets a carry move into the exponent.
  std::uint64_t bits = kept;
  if (biased > 0) {
    if (biased >= (1 << format.exponent_bits) - 1) return infinity_bits(negative, format);
    bits += static_cast<std::uint64_t>(biased - 1) << format.mantissa_bits;
  }
  return sign | bits;
}

}  // namespace

std::uint64_t infinity_bits(bool negative, FloatFormat format) {
  const std::uint64_t exponent = (std::uint64_t{1} << format.exponent_bits) - 1;
  return std::uint64_t{negative} << (format.exponent_bits + format.mantissa_bits) | exponent << format.mantissa_bits;
}

std::uint64_t nan_bits(FloatFormat format) {
  return infinity_bits(false, format) | std::uint64_t{1} << (format.mantissa_bits - 1);
}

std::uint64_t float_bits(double value, FloatFormat format) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = bits >> 63 != 0;
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff) return mantissa == 0 ? infinity_bits(negative, format) : nan_bits(format);
  if (exponent == 0) {
    if (mantissa == 0) return std::uint64_t{negative} << (format.exponent_bits + format.mantissa_bits);
    const int shift = std::countl_zero(mantissa);
    return round_to(mantissa << shift, -1022 + 11 - shift, negative, format);
  }
  return round_to((mantissa | std::uint64_t{1} << 52) << 11, exponent - 1023, negative, format);
}

std::uint64_t float_bits_of_integer(std::uint64_t magnitude, bool negative, FloatFormat format) {
  if (magnitude == 0) return 0;
  const int shift = std::countl_zero(magnitude);
  return round_to(magnitude << shift, 63 - shift, negative, format);
}

}  // namespace headrace::zarr
