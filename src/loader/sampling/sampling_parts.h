// Shared by the sampling sources: digests for LoaderSchema, and the wording of refusals.
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

// Samples have 64-bit numbers with room for the sum of two.
inline constexpr std::uint64_t kMaxSamples = std::uint64_t{1} << 63;
// Limits of a schema in a state.
inline constexpr std::size_t kMaxDigests = 64, kMaxDigestNameBytes = 64;

// A digest of words and texts in order. States contain it, so it must be the same on every machine and in every
// version.
class Digest {
 public:
  Digest& add(std::uint64_t word) noexcept {
    state_ = mix((state_ ^ word) + 0x9E3779B97F4A7C15);
    return *this;
  }
  // Includes the length, so that "ab", "c" and "a", "bc" differ.
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

// A name in a message, bounded in length: names of dimensions come from the array's writer.
inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t kMax = 64;
  return "'" + std::string(name.substr(0, kMax)) + (name.size() > kMax ? "...'" : "'");
}

template <class T>
const T* find_dim(const ByDim<T>& by_dim, std::string_view name) noexcept {
  for (const auto& [dim, value] : by_dim) {
    if (dim == name) return &value;
  }
  return nullptr;
}

}  // namespace headrace::loader
