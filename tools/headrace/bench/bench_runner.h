// Runs jobs: those of a stage concurrently, each clone in its own thread. A stonewall starts the next stage.
#pragma once

#include <headrace/status.h>

#include <vector>

#include "job_options.h"
#include "job_result.h"

namespace headrace::bench {

struct BenchOutcome {
  std::vector<JobResult> results;  // one per thread, or per reporting group with group_reporting
  std::vector<JobResult> groups;   // the sum of each reporting group
  bool interrupted = false;        // results cover only the time until then
};

struct RunOptions {
  unsigned worker_threads = 0;  // of the library; 0: automatic
  bool show_progress = true;    // on a terminal
  bool always_progress = false;
};

// Fails if a job cannot be prepared (its file, its cache state). An error in a job's thread is in its result. After an
// error or an interrupt no later stage starts.
Result<BenchOutcome> run_jobs(const std::vector<JobOptions>& jobs, const RunOptions& run);

}  // namespace headrace::bench
