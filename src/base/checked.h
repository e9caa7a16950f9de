// Arithmetic that cannot wrap silently. Every size computed from stored metadata goes through these functions.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace headrace::base {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) noexcept {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) noexcept {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// Smallest multiple of `unit` that is >= value. REQUIRES: unit is a power of two and the result fits.
template <std::unsigned_integral T>
constexpr T align_up(T value, T unit) noexcept {
  return (value + unit - 1) & ~(unit - 1);
}

template <std::unsigned_integral T>
constexpr T align_down(T value, T unit) noexcept {
  return value & ~(unit - 1);
}

template <std::unsigned_integral T>
constexpr T ceil_div(T value, T unit) noexcept {
  return value / unit + (value % unit != 0 ? 1 : 0);
}

// For sizes that are only printed or compared with a limit.
inline std::uint64_t saturating_mul(std::uint64_t a, std::uint64_t b) noexcept {
  return checked_mul(a, b).value_or(~std::uint64_t{0});
}

}  // namespace headrace::base
