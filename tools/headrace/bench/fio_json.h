// The result in fio's JSON layout, so that tools for fio's JSON can read it. Data that fio has no field for is in
// "headrace".
#pragma once

#include <string>

#include "bench_runner.h"

namespace headrace::bench {

// `with_buckets`: as fio's json+, which includes the buckets of latency histograms.
std::string fio_json(const BenchOutcome& outcome, bool with_buckets);

}  // namespace headrace::bench
