// A trace in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <headrace/trace.h>

#include <string>

namespace headrace::cli {

// Times are microseconds since the first span; "args" holds the bytes, and what a wait waits for is in the name.
Result<std::string> chrome_trace(const trace::Trace& trace);
// Opens the file `path`, or replaces it, and writes the trace.
Status write_chrome_trace(const std::string& path, const trace::Trace& trace);

}  // namespace headrace::cli
