// Writes small uncompressed Zarr arrays into a store, so that tests of the read path know every byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace headrace::testing {

// Element i of an array (C order) has a value that differs from its neighbours' and from other arrays'.
[[gnu::always_inline]] inline std::uint32_t element_value(std::uint64_t i, std::uint32_t seed) {
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + seed;
  x ^= x >> 29;
  return static_cast<std::uint32_t>(x * 0xBF58476D1CE4E5B9ull >> 32);
}

struct RawArray {
  std::vector<std::uint64_t> shape, chunk;
  std::vector<std::uint64_t> inner;  // not empty: sharded, v3
  std::uint32_t seed = 1;
  bool v2 = false;
  int missing_every = 0;  // every n-th chunk (inner chunk) is left out; 0: none

  std::uint64_t elements() const {
    std::uint64_t n = 1;
    for (auto extent : shape) n *= extent;
    return n;
  }
  bool missing(std::uint64_t number) const { return missing_every > 0 && number % missing_every == 0; }
};

constexpr std::uint32_t kFillValue = 0xABCD1234;

namespace detail {

std::string json_list(const std::vector<std::uint64_t>& values);

inline bool advance(std::vector<std::uint64_t>& at, const std::vector<std::uint64_t>& end) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < end[i]) return true;
    at[i] = 0;
  }
  return false;
}

}  // namespace detail

Status put_text(store::Store& store, const std::string& key, const std::string& text);

// Writes the array; `expected` (C order) receives what a reader must find.
Status write_raw_array(store::Store& store, const std::string& path, const RawArray& array,
                       std::vector<std::uint32_t>* expected = nullptr);

}  // namespace headrace::testing
