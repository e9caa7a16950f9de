#include "exit_gate.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace headrace::python {

// Never freed, because threads sleep on it until the process ends. `mutex` guards everything but itself and `changed`.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool closed = false;
  std::thread::id closer;
  std::size_t outside = 0;  // threads that have released the GIL
  std::size_t inside = 0;   // threads that wait for the GIL or hold it for a callback
  std::list<StoppedAtExit::Calls> under_way;

  bool keeps_out() const { return closed && closer != std::this_thread::get_id(); }
};

namespace {

constexpr auto kStopPeriod = std::chrono::milliseconds(50);
// Limit for calls that cannot be cancelled, such as waiting for an unresponsive file system: they end with the process.
constexpr auto kPatience = std::chrono::seconds(5);

std::atomic<Gate*> g_gate{nullptr};

Gate* gate() { return g_gate.load(std::memory_order_acquire); }

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

// Whether everything has ended; waits briefly for it. Call without the GIL.
bool quiet(Gate& gate, const std::vector<StoppedAtExit::Calls>& under_way, bool patient) {
  const auto ended = [](const StoppedAtExit::Calls& calls) { return calls.wait_for(kStopPeriod); };
  if (!std::all_of(under_way.begin(), under_way.end(), ended)) return false;
  std::unique_lock lock(gate.mutex);
  return gate.changed.wait_for(lock, kStopPeriod, [&] { return gate.inside == 0 && (gate.outside == 0 || !patient); });
}

}  // namespace

ReleasedGil::ReleasedGil() : gate_(gate()), thread_(PyEval_SaveThread()) {
  std::unique_lock lock(gate_->mutex);
  if (gate_->keeps_out()) {
    lock.unlock();
    sleep_for_ever();
  }
  ++gate_->outside;
}

ReleasedGil::~ReleasedGil() {
  {
    std::unique_lock lock(gate_->mutex);
    --gate_->outside;
    if (gate_->closed) gate_->changed.notify_all();
    if (gate_->keeps_out()) {
      lock.unlock();
      sleep_for_ever();
    }
    ++gate_->inside;
  }
  PyEval_RestoreThread(thread_);
  const std::lock_guard lock(gate_->mutex);
  --gate_->inside;
  if (gate_->closed) gate_->changed.notify_all();
}

EnteredPython::EnteredPython() : gate_(gate()) {
  {
    const std::lock_guard lock(gate_->mutex);
    if (gate_->keeps_out()) return;
    ++gate_->inside;
  }
  acquired_.emplace();
}

EnteredPython::~EnteredPython() {
  if (!acquired_) return;
  acquired_.reset();
  const std::lock_guard lock(gate_->mutex);
  --gate_->inside;
  if (gate_->closed) gate_->changed.notify_all();
}

StoppedAtExit::StoppedAtExit(std::function<void()> cancel, std::function<bool(std::chrono::nanoseconds)> wait_for)
    : gate_(gate()) {
  std::list<Calls> one;
  one.push_back({std::move(cancel), std::move(wait_for)});
  at_ = one.begin();
  const std::lock_guard lock(gate_->mutex);
  gate_->under_way.splice(gate_->under_way.end(), one);
}

StoppedAtExit::~StoppedAtExit() {
  if (gate_ != gate()) return;  // the parent's gate: another of its threads may have held the mutex during the fork
  std::list<Calls> gone;
  const std::lock_guard lock(gate_->mutex);
  gone.splice(gone.end(), gate_->under_way, at_);
}

void close_gate() {
  Gate& closing = *gate();
  std::vector<StoppedAtExit::Calls> under_way;
  {
    const std::lock_guard lock(closing.mutex);
    closing.closed = true;
    closing.closer = std::this_thread::get_id();
    under_way.assign(closing.under_way.begin(), closing.under_way.end());
  }
  {
    const nb::gil_scoped_release release;
    for (const StoppedAtExit::Calls& calls : under_way) calls.cancel();
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    bool done = false;
    {
      const nb::gil_scoped_release release;
      done = quiet(closing, under_way, std::chrono::steady_clock::now() < end);
    }
    if (done) return;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void bind_exit_gate(nb::module_& module) {
  g_gate = new Gate;
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { g_gate = new Gate; });
  module.def("close_gate", &close_gate, "Cancels what is under way; other threads do not come back to Python.");
  nb::module_::import_("atexit").attr("register")(module.attr("close_gate"));
}

}  // namespace headrace::python
