// What a report says for those who open it years later: which program ran where and when, what its words mean, and what
// might help.
#pragma once

#include <headrace/trace.h>

#include <array>
#include <string>

#include "report/run_report.h"

namespace headrace::cli {

// The command line, the version, the time (UTC) and the machine.
ReportTable run_facts();

// What a stage is: "encoded bytes taken from storage".
const char* stage_meaning(trace::Stage stage);
// What a track's threads do, by its name without the number: "worker"; empty where the name is not the library's.
std::string track_meaning(const std::string& name);
// What to try where the stages took this share of the time. One or two sentences; empty: nothing held the run back.
std::string advice(const std::array<trace::StageTotals, trace::kStageCount>& totals, double wall_seconds);

}  // namespace headrace::cli
