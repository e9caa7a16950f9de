// Converts numbers of metadata documents to the bits of narrower formats, rounding the exact value half to even.
//
// Threads: pure functions.
#pragma once

#include <cstdint>

namespace headrace::zarr {

// A binary floating-point format of up to 64 bits in IEEE 754 layout: sign, exponent, mantissa.
struct FloatFormat {
  int exponent_bits, mantissa_bits;
  int bytes() const { return (1 + exponent_bits + mantissa_bits) / 8; }
};
inline constexpr FloatFormat kFloat16{5, 10}, kBfloat16{8, 7}, kFloat32{8, 23}, kFloat64{11, 52};

// Values that round beyond the largest finite one become infinity (round to nearest).
std::uint64_t float_bits(double value, FloatFormat format);
std::uint64_t float_bits_of_integer(std::uint64_t magnitude, bool negative, FloatFormat format);
std::uint64_t infinity_bits(bool negative, FloatFormat format);
// Sign 0; of the mantissa, only the top bit is set.
std::uint64_t nan_bits(FloatFormat format);

}  // namespace headrace::zarr
