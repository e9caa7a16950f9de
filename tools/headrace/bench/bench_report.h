// The job section of the --report page; the timeline is separate.
#pragma once

#include "bench_runner.h"
#include "report/run_report.h"

namespace headrace::bench {

cli::ReportSummary report_summary(const BenchOutcome& outcome);

}  // namespace headrace::bench
