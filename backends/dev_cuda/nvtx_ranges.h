// Shows the stages of reads and writes as NVTX ranges with their payload bytes, in a domain named headrace.
//
// Threads: any.
#pragma once

#include "base/range_sink.h"

namespace headrace::device::cuda {

// Null if no profiler is attached to the process, so that stages then cost nothing extra.
const trace::RangeSink* nvtx_ranges() noexcept;

}  // namespace headrace::device::cuda
