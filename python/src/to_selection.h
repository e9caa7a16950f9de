// Converts Python index expressions to selections.
//
// Threads: call with the GIL held.
#pragma once

#include <headrace/selection.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

namespace headrace::python {

enum class Indexing : std::uint8_t { kOrthogonal, kPoints, kBlocks };

// `object`: an integer, a slice, an ellipsis, a sequence of integers or booleans, or a tuple with one of these per
// dimension. `shape`: the array's. Raises IndexError if the selection is outside the array, TypeError if it is not a
// valid index.
Selection to_selection(nanobind::handle object, Indexing indexing, std::span<const std::uint64_t> shape);

}  // namespace headrace::python
