// The gate between native threads and Python. It closes just before the interpreter exits.
//
// Once finalization has started, Python ends or blocks any thread that requests the GIL; inside C++ code this
// terminates the process. So close_gate(), which atexit calls before finalization, cancels all running operations and
// waits until no thread is entering Python. Threads that arrive later stay outside: callbacks are skipped, and other
// threads (only daemon threads are left by then) sleep until the process exits. The thread that closed the gate is the
// interpreter's main thread, which passes as before.
//
// Threads: any. A forked child has its own gate, which is open.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <list>
#include <optional>

namespace headrace::python {

struct Gate;

// Releases the GIL for a scope, like nanobind::gil_scoped_release. Blocks forever if the gate is closed.
class ReleasedGil {
 public:
  ReleasedGil();
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  Gate* gate_;
  PyThreadState* thread_;
};

// Acquires the GIL for a scope in a library thread. Converts to false if the gate is closed: Python must not be used
// then.
class EnteredPython {
 public:
  EnteredPython();
  ~EnteredPython();
  EnteredPython(const EnteredPython&) = delete;
  EnteredPython& operator=(const EnteredPython&) = delete;
  explicit operator bool() const noexcept { return acquired_.has_value(); }

 private:
  Gate* gate_;
  std::optional<nanobind::gil_scoped_acquire> acquired_;
};

// A running operation that the interpreter's exit cancels. Both functions may still be called after this object is
// gone.
class StoppedAtExit {
 public:
  // `cancel` must not block. `wait_for` waits at most the given time and returns whether the operation has ended.
  StoppedAtExit(std::function<void()> cancel, std::function<bool(std::chrono::nanoseconds)> wait_for);
  ~StoppedAtExit();
  StoppedAtExit(const StoppedAtExit&) = delete;
  StoppedAtExit& operator=(const StoppedAtExit&) = delete;

  struct Calls {
    std::function<void()> cancel;
    std::function<bool(std::chrono::nanoseconds)> wait_for;
  };

 private:
  Gate* gate_;
  std::list<Calls>::iterator at_;
};

// REQUIRES: the GIL is held. Ctrl-C ends the wait.
void close_gate();
// Called on import: opens the gate, and registers close_gate() with atexit.
void bind_exit_gate(nanobind::module_& module);

}  // namespace headrace::python
