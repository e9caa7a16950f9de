#include "gen/parallel.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace headrace::cli {
namespace {

volatile std::sig_atomic_t g_signal = 0;

void note_signal(int signal) { g_signal = signal; }

}  // namespace

void catch_interrupts() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGXFSZ}) {
    if (std::signal(signal, note_signal) == SIG_IGN) std::signal(signal, SIG_IGN);  // as under nohup
  }
}

void raise_caught_interrupt() {
  const int signal = g_signal;
  if (signal == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

Status run_parallel(unsigned threads, std::uint64_t count, const std::function<Result<Work>()>& make_work) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(std::min<std::uint64_t>(threads, std::max<std::uint64_t>(count, 1)));
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  Status first;
  const auto fail = [&](Status status) {
    std::lock_guard lock(mutex);
    if (first.ok()) first = std::move(status);
    stop = true;
  };
  const auto loop = [&] {
    try {
      auto work = make_work();
      if (!work.ok()) return fail(std::move(work).status());
      while (!stop) {
        if (g_signal != 0) return fail(Status(Code::kCancelled, Layer::kApi, "interrupted"));
        const std::uint64_t item = next.fetch_add(1);
        if (item >= count) return;
        if (Status status = (*work)(item); !status.ok()) return fail(std::move(status));
      }
    } catch (const std::bad_alloc&) {
      fail(Status::out_of_memory());
    }
  };
  std::vector<std::thread> others;
  try {
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(loop);
  } catch (const std::system_error&) {
    // The bytes do not depend on the number of threads.
  }
  loop();
  for (std::thread& thread : others) thread.join();
  return first;
}

}  // namespace headrace::cli
