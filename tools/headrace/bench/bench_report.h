// What --report and --trace write: the one place where the tool's HTML page and trace are connected to `bench`.
#pragma once

#include <headrace/status.h>

#include <string>

#include "bench_runner.h"

namespace headrace::bench {

struct ReportFiles {
  std::string report, trace;  // empty: not asked for
};

// Before the jobs run: starts recording if anything is asked for.
Status begin_report(const ReportFiles& files);
// After them: writes what is asked for.
Status write_report(const ReportFiles& files, const BenchOutcome& outcome);

}  // namespace headrace::bench
