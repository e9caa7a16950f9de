// Lets a test set the time stamps that the library sees: those of a file system with whole seconds, or of a file whose
// writer has set the stamps but not yet the bytes. file_stamps.cc replaces the C library's fstat() and nanosleep(), so
// only programs with a single test (ALONE) can link it.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace::support {

extern std::atomic<bool> whole_seconds;
extern std::atomic<std::int64_t> stamp_ns;  // 0: the file's own
extern std::atomic<std::uint64_t> fstat_calls;
extern std::atomic<std::int64_t> slept_ns;

// Waits for the first tenth of a second.
void wait_for_second();

}  // namespace headrace::support
