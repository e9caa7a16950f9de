// RangeSink: receives the start and end of stages, for example to set a profiler's markers.
//
// The CUDA plug-in has one for NVTX. It is set only when a profiler is attached, so there is no cost otherwise.
//
// Threads: set_range_sink() from any thread at any time; begin and end of a range on the same thread, properly nested.
#pragma once

#include <headrace/trace.h>

#include <cstdint>

namespace headrace::trace {

struct RangeSink {
  void (*begin)(Stage stage, std::uint64_t bytes) noexcept = nullptr;
  void (*end)() noexcept = nullptr;
};

// `sink` must stay valid forever. Null is ignored, so the plug-in's answer can be passed on unchecked.
void set_range_sink(const RangeSink* sink) noexcept;

}  // namespace headrace::trace
