// Context of a report for later readers: program, machine and time, explanations of terms, and advice.
#pragma once

#include <headrace/trace.h>

#include <array>
#include <string>

#include "report/run_report.h"

namespace headrace::cli {

// Command line, version, time (UTC) and machine.
ReportTable run_facts();

// Explains a stage: "encoded bytes taken from storage".
const char* stage_meaning(trace::Stage stage);
// Explains what a track's threads do, by its name without the number: "worker"; empty for an unknown name.
std::string track_meaning(const std::string& name);
// Advice for stages that took these shares of the time, in one or two sentences; empty if nothing was a bottleneck.
std::string advice(const std::array<trace::StageTotals, trace::kStageCount>& totals, double wall_seconds);

}  // namespace headrace::cli
