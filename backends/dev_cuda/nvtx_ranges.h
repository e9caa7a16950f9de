// The stages of reads and writes as NVTX ranges, payload bytes included, in a domain named headrace.
//
// Threads: any.
#pragma once

#include "base/range_sink.h"

namespace headrace::device::cuda {

// Null where no profiler is attached to the process, so that without one a stage costs what it always did.
const trace::RangeSink* nvtx_ranges() noexcept;

}  // namespace headrace::device::cuda
