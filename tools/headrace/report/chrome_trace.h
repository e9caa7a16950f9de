// Writes a trace in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <headrace/trace.h>

#include <string>

namespace headrace::cli {

// Times are microseconds since the first span. "args" holds the bytes; the name of a wait says what it waits for.
Result<std::string> chrome_trace(const trace::Trace& trace);
// Writes the trace to the file `path`, replacing an existing one.
Status write_chrome_trace(const std::string& path, const trace::Trace& trace);

}  // namespace headrace::cli
