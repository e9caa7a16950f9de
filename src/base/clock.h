// Monotonic time in nanoseconds, for stage statistics and deadlines.
#pragma once

#include <chrono>
#include <cstdint>

namespace headrace::base {

inline std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace headrace::base
