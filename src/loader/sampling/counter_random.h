// Random numbers as functions of a key and a counter: they need no state and no order of draws.
#pragma once

#include <array>
#include <cstdint>

namespace headrace::loader {

using U128 = unsigned __int128;

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): passes BigCrush.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 128 random bits for each (key, a, b).
constexpr std::array<std::uint64_t, 2> random_at(std::uint64_t key, std::uint64_t a, std::uint64_t b) {
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); };
  const auto out = philox({low(a), high(a), low(b), high(b)}, {low(key), high(key)});
  return {out[0] | std::uint64_t{out[1]} << 32, out[2] | std::uint64_t{out[3]} << 32};
}

// The purpose of a key. Draws for different purposes are independent. LoaderState depends on these values, so they must
// never change.
enum class Purpose : std::uint64_t { kOrder = 1, kBuffers = 2, kWeights = 3, kCrops = 4, kPartitions = 5 };

constexpr std::uint64_t derive_key(std::uint64_t seed, Purpose purpose, std::uint64_t epoch) {
  return random_at(seed, epoch, static_cast<std::uint64_t>(purpose))[0];
}

// Maps 64 random bits to [0, n), each value equally likely to within n / 2^64. REQUIRES: n > 0.
constexpr std::uint64_t scale_to(std::uint64_t random, std::uint64_t n) {
  return static_cast<std::uint64_t>((static_cast<U128>(random) * n) >> 64);
}

// A bijection of 64 bits in which each input bit changes each output bit with probability near 1/2.
constexpr std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xBF58476D1CE4E5B9;
  value ^= value >> 27;
  value *= 0x94D049BB133111EB;
  return value ^ value >> 31;
}

}  // namespace headrace::loader
