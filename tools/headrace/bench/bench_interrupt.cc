#include "bench_interrupt.h"

#include <atomic>
#include <csignal>

namespace headrace::bench {
namespace {

using Handler = void (*)(int);
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);
Handler g_before[std::size(kSignals)] = {};

void note_signal(int signal) {
  int none = 0;
  if (g_signal.compare_exchange_strong(none, signal)) return;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] == signal) std::signal(signal, g_before[i]);
  }
  std::raise(signal);
}

}  // namespace

void note_interrupts() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    g_before[i] = SIG_DFL;
    const Handler before = std::signal(kSignals[i], note_signal);
    if (before == SIG_IGN) std::signal(kSignals[i], SIG_IGN);  // as under nohup
    if (before != note_signal && before != SIG_ERR) g_before[i] = before;
  }
}

int interrupted() noexcept { return g_signal.load(std::memory_order_relaxed); }

void raise_noted_interrupt() {
  const int signal = interrupted();
  if (signal == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace headrace::bench
