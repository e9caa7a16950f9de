// How many times this process has been forked: what has threads or a driver behind it does not survive, and must say
// so.
//
// An object keeps the number it was made under and compares; a difference means it was inherited by a child.
#pragma once

#include <pthread.h>

#include <atomic>

namespace headrace::base {

inline std::atomic<unsigned> g_fork_generation{0};

inline unsigned fork_generation() noexcept {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { g_fork_generation.fetch_add(1, std::memory_order_relaxed); });
  return g_fork_generation.load(std::memory_order_relaxed);
}

}  // namespace headrace::base
