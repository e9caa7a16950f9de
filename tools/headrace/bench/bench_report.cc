#include "bench_report.h"

namespace headrace::bench {

// CONNECT: the recorder of spans and the writers of the page and the trace go into these two functions.

Status begin_report(const ReportFiles& files) {
  if (files.report.empty() && files.trace.empty()) return {};
  return {Code::kUnsupported, Layer::kApi, "this build records no trace: leave --report and --trace out"};
}

Status write_report(const ReportFiles&, const BenchOutcome&) { return {}; }

}  // namespace headrace::bench
