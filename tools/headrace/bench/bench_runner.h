// Runs jobs: those of a stage at the same time, each clone of a job in a thread; a stonewall begins the next stage.
#pragma once

#include <headrace/status.h>

#include <vector>

#include "job_options.h"
#include "job_result.h"

namespace headrace::bench {

struct BenchOutcome {
  std::vector<JobResult> results;  // one a thread, or one a reporting group that asked for it
  std::vector<JobResult> groups;   // the sum of each reporting group
  bool interrupted = false;        // what is there was measured until then
};

struct RunOptions {
  unsigned worker_threads = 0;  // the library's; 0: its choice
  bool show_progress = true;    // on a terminal
  bool always_progress = false;
};

// Fails where a job cannot be prepared: its file, its cache state. What fails in a job's thread is in its result; no
// later stage begins then, nor after an interrupt.
Result<BenchOutcome> run_jobs(const std::vector<JobOptions>& jobs, const RunOptions& run);

}  // namespace headrace::bench
