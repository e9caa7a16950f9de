// A page that shows a trace: what was the bottleneck, the stages, a timeline, bytes by path.
//
// One file with no script and nothing to fetch, under 2 MB however long the trace is. Every text is escaped.
#pragma once

#include <headrace/trace.h>

#include <string>
#include <string_view>

#include "report/run_report.h"

namespace headrace::cli {

Result<std::string> html_report(const trace::Trace& trace, const ReportSummary& summary);
// Opens the file `path`, or replaces it, and writes the page.
Status write_html_report(const std::string& path, const trace::Trace& trace, const ReportSummary& summary);

// Text inside an element or an attribute in double quotes; control characters and bytes that are not UTF-8 become
// U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace headrace::cli
