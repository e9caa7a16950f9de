// Distributes work over threads; an interrupt ends it early.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <functional>

namespace headrace::cli {

// Calls work(i) once for each i < count, in any order, on `threads` threads (0: the CPUs this process may use). Stops
// at the first failure and returns it, or at an interrupt with kCancelled. Each thread calls make_work() once and uses
// its result.
using Work = std::function<Status(std::uint64_t item)>;
Status run_parallel(unsigned threads, std::uint64_t count, const std::function<Result<Work>()>& make_work);

// Makes SIGINT, SIGTERM and SIGHUP end run_parallel() instead of the process; ignored signals stay ignored.
void catch_interrupts();
// Ends the process by the caught signal, if there was one. Call it after cleaning up.
void raise_caught_interrupt();

}  // namespace headrace::cli
