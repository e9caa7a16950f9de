// Monotonic time in nanoseconds, for stage statistics and deadlines.
#pragma once

#include <chrono>
#include <cstdint>

namespace headrace::base {

inline std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// For spin loops, between two checks for another thread's progress.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace headrace::base
