// What the page of --report says about the jobs besides the timeline.
#pragma once

#include "bench_runner.h"
#include "report/run_report.h"

namespace headrace::bench {

cli::ReportSummary report_summary(const BenchOutcome& outcome);

}  // namespace headrace::bench
