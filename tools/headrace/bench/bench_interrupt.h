// The interrupt that ends a bench early: jobs begin nothing new, and what they have measured is still printed.
//
// Threads: interrupted() and request_stop() from any thread.
#pragma once

namespace headrace::bench {

// From now on the first SIGINT, SIGTERM or SIGHUP is only noted; the second does what it did before. Signals that are
// ignored stay so.
void note_interrupts();
// The signal that was noted; 0: none.
int interrupted() noexcept;
// Ends the process by that signal, if there was one: call after all is printed.
void raise_noted_interrupt();

}  // namespace headrace::bench
