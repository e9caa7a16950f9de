// The result as fio lays it out, so that what reads fio's JSON reads ours; what fio has no place for is in "headrace".
#pragma once

#include <string>

#include "bench_runner.h"

namespace headrace::bench {

// `with_buckets`: fio's json+, which adds the latency histograms' buckets.
std::string fio_json(const BenchOutcome& outcome, bool with_buckets);

}  // namespace headrace::bench
