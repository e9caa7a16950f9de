// RangeSink: who else wants to know when a stage begins and ends, such as a profiler's markers.
//
// The CUDA plug-in has one for NVTX. It is called only where it was set, so without a profiler nobody pays for it.
//
// Threads: set_range_sink() from any thread, at any time; begin and end of one range on one thread, properly nested.
#pragma once

#include <headrace/trace.h>

#include <cstdint>

namespace headrace::trace {

struct RangeSink {
  void (*begin)(Stage stage, std::uint64_t bytes) noexcept = nullptr;
  void (*end)() noexcept = nullptr;
};

// `sink` is kept for good; null changes nothing, so that the plug-in's answer can be handed on as it is.
void set_range_sink(const RangeSink* sink) noexcept;

}  // namespace headrace::trace
