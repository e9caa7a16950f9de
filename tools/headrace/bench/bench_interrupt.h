// Interrupts a bench: jobs start no more I/O, and the results measured so far are printed.
//
// Threads: interrupted() from any thread.
#pragma once

namespace headrace::bench {

// Installs handlers: the first SIGINT, SIGTERM or SIGHUP is recorded; the second has its previous effect. Ignored
// signals stay ignored.
void note_interrupts();
// The recorded signal; 0 if there is none.
int interrupted() noexcept;
// Ends the process by the recorded signal, if there is one. Call it after all output.
void raise_noted_interrupt();

}  // namespace headrace::bench
