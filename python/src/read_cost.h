// Estimates the cost of a read from metadata, to decide whether a user may want to interrupt it.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>

#include <cstdint>

namespace headrace::python {

// Reads up to this cost finish before anyone could press Ctrl-C.
inline constexpr std::uint64_t kShortReadBytes = std::uint64_t{16} << 20;

struct ReadCost {
  std::uint64_t chunks = 0;
  std::uint64_t elements = 0;  // decoded or copied
  std::uint64_t bytes = 0;     // of these elements, plus an overhead per chunk for fetching it
};

// An upper bound; counters saturate. Zero for a selection outside the array: the read reports the error.
ReadCost cost_of(const Array& array, const Selection& selection);

}  // namespace headrace::python
