// Worker processes that run cases: one that dies, hangs or takes too much memory is a finding and is started anew.
#pragma once

#include <cstdint>
#include <string>

#include "cases.h"

namespace headrace::stress {

// Where a campaign is noted (docs/reference/campaigns.jsonl).
struct RecordOptions {
  std::string file, commit;  // "": nowhere
};
// Prints a JSON object; with commit, date and machine it goes to the record.
void print_result(const std::string& json, const RecordOptions& record);

struct RunOptions {
  std::uint64_t seed = 1, first = 0, count = 1000;
  double seconds = 0;  // 0: until `count` is reached
  unsigned jobs = 1;
  std::uint64_t most_findings = 10;
  std::string kinds;  // separated by commas; "": all
  RigOptions rig;
  RecordOptions record;
  bool verbose = false;
};

// Prints findings as they come, and a JSON object in the end. 0: nothing was found; 1; 2: wrong arguments.
int run_cases(const RunOptions& options);

}  // namespace headrace::stress
