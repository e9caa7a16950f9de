// Test data for decoders that resembles arrays of floats.
#pragma once

#include <cstring>
#include <random>

#include "tests/support/codec_testing.h"

namespace headrace::test {

// Rounded values that rise and fall, as in stored float arrays; `planes` puts their bytes into byte planes.
inline Bytes float_field(std::size_t bytes, unsigned seed, bool planes) {
  std::mt19937 rng(seed);
  Bytes out(bytes), shuffled;
  float value = 280;
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    value += 0.01f * (static_cast<float>(rng() % 200) - 99.5f);
    const float rounded = static_cast<float>(static_cast<int>(value * 64)) / 64;
    std::memcpy(&out[i], &rounded, 4);
  }
  if (!planes) return out;
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t i = k; i < bytes; i += 4) shuffled.push_back(out[i]);
  }
  return shuffled;
}

}  // namespace headrace::test
