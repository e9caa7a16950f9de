// What a program prints, run without a shell: for programs that give credentials.
//
// Threads: every call from any thread.
// Owns:    the program's process while it runs, and all of its group where it has to be ended.
// Fails:   messages say how it ended, and nothing of what it was called with or printed.
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
  std::vector<std::string> words;        // the program first, looked for along PATH where it has no '/'
  std::vector<std::string> environment;  // "NAME=value"
  std::uint64_t most_ns = 60'000'000'000;
  std::size_t most_bytes = 64 << 10;
};

// Its standard output, where it ends with 0. It has no input, and its errors go nowhere. kInvalidArgument: there
// is no such program; kPermission: it cannot be started; kTimeout, kResourceExhausted: it took too long or printed too
// much, and was killed; kCancelled: `stop` was set meanwhile; else kIo. Blocks.
Result<std::string> run_program(const ProgramRun& run, const std::atomic<bool>& stop);

// A line as a shell takes it apart, with quotes and backslashes and without anything else of a shell's. Nothing for no
// word, an open quote, or a NUL.
std::optional<std::vector<std::string>> split_command(std::string_view line);

}  // namespace headrace::http
