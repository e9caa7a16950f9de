// The way between native threads and Python, which closes when the interpreter is about to end.
//
// Python ends or holds a thread that asks for the GIL once finalization has begun; in the middle of C++ code that
// terminates the process. So close_gate(), which atexit calls before that, cancels what is under way and waits until
// nobody is on the way in. Whoever comes later stays outside: callbacks are left out, and other threads (daemons, as
// the rest has been joined by then) sleep where they are until the process is gone. The thread that closed the gate is
// the interpreter's own and goes on as before.
//
// Threads: any. A forked child has a gate of its own, open.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <list>
#include <optional>

namespace headrace::python {

struct Gate;

// Gives up the GIL for a scope, as nanobind::gil_scoped_release does; may not return where the gate is closed.
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

// Takes the GIL for a scope in a thread of the library's; false where the gate is closed, and Python may not be used.
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

// Something under way that the interpreter's end stops. Both functions are also called after this object is gone.
class StoppedAtExit {
 public:
  // `cancel` returns at once; `wait_for` tells whether it has ended, after the given time at the latest.
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

// REQUIRES: the GIL is held. Ctrl-C ends the waiting.
void close_gate();
// For a module that is imported: opens the gate, and has it closed at exit.
void bind_exit_gate(nanobind::module_& module);

}  // namespace headrace::python
