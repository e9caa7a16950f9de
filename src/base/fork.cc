#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace headrace::base {
namespace {
std::atomic<std::uint64_t> g_generation{0};
}

std::uint64_t fork_generation() noexcept {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { g_generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return g_generation.load(std::memory_order_relaxed);
}

}  // namespace headrace::base
