// Selections as Python writes them.
//
// Threads: with the GIL held.
#pragma once

#include <headrace/selection.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

namespace headrace::python {

enum class Indexing : std::uint8_t { kOrthogonal, kPoints, kBlocks };

// `object`: an integer, a slice, an ellipsis, a sequence of integers or booleans, or a tuple of those, one for each
// dimension. `shape`: of the array. Raises IndexError for what no array of that shape has, TypeError for what is no
// index.
Selection to_selection(nanobind::handle object, Indexing indexing, std::span<const std::uint64_t> shape);

}  // namespace headrace::python
