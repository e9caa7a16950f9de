// What the parts of the module share.
#pragma once

#include <headrace/array.h>
#include <headrace/stats.h>
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exit_gate.h"

namespace headrace::python {

inline constexpr auto kSignalPeriod = std::chrono::milliseconds(50);  // how soon Ctrl-C is noticed

// Calls `body`, which may block and uses nothing of Python's, while other threads run Python.
template <class Body>
auto without_gil(Body&& body) {
  const ReleasedGil released;
  return body();
}

// The memory of an object that has some for each element that its shape and strides (none: C order) reach.
TensorView view_of(std::byte* first, const DataType& dtype, std::vector<std::uint64_t> shape,
                   std::vector<std::int64_t> strides);

// Adds a read to the statistics of this process.
void count(const Stats& stats);

void bind_cache(nanobind::module_& module);
void bind_context(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);
void bind_chunks(nanobind::module_& module);
void bind_files(nanobind::module_& module);
void bind_loader(nanobind::module_& module);
void bind_memory(nanobind::module_& module);

}  // namespace headrace::python
