// `headrace read` for arrays of variable-length strings and byte strings.
#pragma once

#include <headrace/array.h>
#include <headrace/context.h>
#include <headrace/selection.h>

#include <cstdint>
#include <string>

#include "report/run_report.h"

namespace headrace::cli {

struct VariableReadRequest {
  std::string path, select, output;
  bool raw = false, npy = false, sha256 = false, stats = false, json = false;
  ReportOptions report;
  std::uint64_t slab_bytes = 0;  // size of a part, with an output or a hash
};

// Reads, writes and reports like `headrace read` of numbers. Returns the exit code.
int read_variable_array(const VariableReadRequest& request, const Context& context, const Array& array,
                        const Selection& selection, const ResolvedSelection& resolved);

}  // namespace headrace::cli
