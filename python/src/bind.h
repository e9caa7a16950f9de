// Declarations shared by the source files of the module.
#pragma once

#include <headrace/array.h>
#include <headrace/stats.h>
#include <nanobind/nanobind.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "casters.h"
#include "exit_gate.h"

namespace headrace::python {

inline constexpr auto kSignalPeriod = std::chrono::milliseconds(50);  // interval of checks for Ctrl-C

// Runs `body` with the GIL released. `body` may block and must not use Python.
template <class Body>
auto without_gil(Body&& body) {
  const ReleasedGil released;
  return body();
}

// The view of an object that has memory for every element that its shape and strides (empty: C order) reach.
TensorView view_of(std::byte* first, const DataType& dtype, std::vector<std::uint64_t> shape,
                   std::vector<std::int64_t> strides);

// Adds a read to the statistics of this process. Threads: any.
void count(const Stats& stats);

void bind_cache(nanobind::module_& module);
void bind_context(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);
void bind_chunks(nanobind::module_& module);
void bind_files(nanobind::module_& module);
void bind_loader(nanobind::module_& module);
void bind_memory(nanobind::module_& module);

}  // namespace headrace::python
