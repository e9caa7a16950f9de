// Numbers of metadata documents as the bits of narrower formats, rounded half to even from the exact value.
//
// Threads: pure functions.
#pragma once

#include <cstdint>

namespace headrace::zarr {

// A binary floating-point format of up to 64 bits, laid out as IEEE 754 has it: sign, exponent, mantissa.
struct FloatFormat {
  int exponent_bits, mantissa_bits;
  int bytes() const { return (1 + exponent_bits + mantissa_bits) / 8; }
};
inline constexpr FloatFormat kFloat16{5, 10}, kBfloat16{8, 7}, kFloat32{8, 23}, kFloat64{11, 52};

// Values beyond the largest finite one become infinity, as rounding to nearest has it.
std::uint64_t float_bits(double value, FloatFormat format);
std::uint64_t float_bits_of_integer(std::uint64_t magnitude, bool negative, FloatFormat format);
std::uint64_t infinity_bits(bool negative, FloatFormat format);
// Sign 0, only the top bit of the mantissa set.
std::uint64_t nan_bits(FloatFormat format);

}  // namespace headrace::zarr
