// Runs a program without a shell and returns its output; used for programs that print credentials.
//
// Threads: every call from any thread.
// Owns:    the program's process while it runs; kills its whole process group if it must be ended.
// Fails:   messages say how the program ended, never its arguments or output.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::http {

struct ProgramRun {
  std::vector<std::string> words;        // the program first, looked up in PATH where it has no '/'
  std::vector<std::string> environment;  // "NAME=value"
  std::uint64_t max_ns = 60'000'000'000;
  std::size_t max_bytes = 64 << 10;
};

// The program's standard output if it exits with 0. Its standard input and error are /dev/null. kInvalidArgument: no
// such program; kPermission: it cannot be started; kTimeout, kResourceExhausted: it ran too long or printed too much
// and was killed; kCancelled: `stop` was set meanwhile; otherwise kIo. Blocks.
Result<std::string> run_program(const ProgramRun& run, const std::atomic<bool>& stop);

// Splits a line into words like a shell, with quotes and backslashes but no other shell syntax. Nothing if there are no
// words, a quote is open, or the line contains a NUL.
std::optional<std::vector<std::string>> split_command(std::string_view line);

}  // namespace headrace::http
