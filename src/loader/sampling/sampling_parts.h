// What the sources of sampling share: digests for LoaderSchema, and the wording of refusals.
#pragma once

#include <headrace/loader_schema.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "loader/sampling/counter_random.h"

namespace headrace::loader {

// Samples are numbered in 64 bits with room for sums of two.
inline constexpr std::uint64_t kMaxSamples = std::uint64_t{1} << 63;
// Of a schema in a state.
inline constexpr std::size_t kMaxDigests = 64, kMaxDigestNameBytes = 64;

// A digest of words and texts in order. The same on every machine and in every version: states hold it.
class Digest {
 public:
  Digest& add(std::uint64_t word) noexcept {
    state_ = mix((state_ ^ word) + 0x9E3779B97F4A7C15);
    return *this;
  }
  // With its length, so that "ab", "c" and "a", "bc" differ.
  Digest& add(std::string_view text) noexcept {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
    return *this;
  }
  std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0;
};

inline Status refuse(std::string message) { return Status(Code::kInvalidArgument, Layer::kApi, std::move(message)); }

// A name in a message: names of dimensions come from whoever wrote the array.
inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t kMost = 64;
  return "'" + std::string(name.substr(0, kMost)) + (name.size() > kMost ? "...'" : "'");
}

template <class T>
const T* find_dim(const ByDim<T>& by_dim, std::string_view name) noexcept {
  for (const auto& [dim, value] : by_dim) {
    if (dim == name) return &value;
  }
  return nullptr;
}

}  // namespace headrace::loader
