// What the library learns of files' time stamps, as a test sets it: of a file system that keeps whole seconds, or of a
// file whose writer has set its stamps and not yet its bytes. file_stamps.cc has an fstat() and a nanosleep() in the
// place of the C library's: for programs of one test (ALONE).
//
// Threads: every one.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace::support {

extern std::atomic<bool> whole_seconds;
extern std::atomic<std::int64_t> stamp_ns;  // 0: what the file has
extern std::atomic<std::uint64_t> fstat_calls;
extern std::atomic<std::int64_t> slept_ns;

// Until the first tenth of one.
void wait_for_second();

}  // namespace headrace::support
