// Work spread over threads, and the interrupt that ends it early.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <functional>

namespace headrace::cli {

// Calls work(i) once for each i < count, on `threads` threads (0: the CPUs this process may use), in no order. The
// first failure ends it and is returned; so does an interrupt, as kCancelled. make_work() is called on each thread,
// which keeps what it gives.
using Work = std::function<Status(std::uint64_t item)>;
Status run_parallel(unsigned threads, std::uint64_t count, const std::function<Result<Work>()>& make_work);

// From now on SIGINT, SIGTERM and SIGHUP end run_parallel() instead of the process; signals that are ignored stay so.
void catch_interrupts();
// Ends the process by the signal that was caught, if one was: call after cleaning up.
void raise_caught_interrupt();

}  // namespace headrace::cli
