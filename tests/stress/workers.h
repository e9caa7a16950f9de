// Worker processes that run cases. A worker that crashes, hangs or takes too much memory counts as a finding and is
// restarted.
#pragma once

#include <cstdint>
#include <string>

#include "cases.h"

namespace headrace::stress {

// Where a campaign is recorded (docs/reference/campaigns.jsonl).
struct RecordOptions {
  std::string file, commit;  // "": nowhere
};
// Prints a JSON object; with commit, date and machine added, it is appended to the record.
void print_result(const std::string& json, const RecordOptions& record);

struct RunOptions {
  std::uint64_t seed = 1, first = 0, count = 1000;
  double seconds = 0;  // 0: run until `count` is reached
  unsigned jobs = 1;
  std::uint64_t max_findings = 10;
  std::string kinds;  // separated by commas; "": all
  RigOptions rig;
  RecordOptions record;
  bool verbose = false;
};

// Prints findings as they occur and a JSON object at the end. Returns 0 if nothing was found, 1 with findings, 2 for
// wrong arguments.
int run_cases(const RunOptions& options);

}  // namespace headrace::stress
