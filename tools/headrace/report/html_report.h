// An HTML page that shows a trace: the bottleneck, the stages, a timeline, bytes by path.
//
// A single file without scripts or external resources, below 2 MB for any trace. All text is escaped.
#pragma once

#include <headrace/trace.h>

#include <string>
#include <string_view>

#include "report/run_report.h"

namespace headrace::cli {

Result<std::string> html_report(const trace::Trace& trace, const ReportSummary& summary);
// Writes the page to the file `path`, replacing an existing one.
Status write_html_report(const std::string& path, const trace::Trace& trace, const ReportSummary& summary);

// Escapes text for an element or a double-quoted attribute; control characters and invalid UTF-8 become U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace headrace::cli
