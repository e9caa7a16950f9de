// What the parts of the module share.
#pragma once

#include <headrace/stats.h>
#include <nanobind/nanobind.h>

namespace headrace::python {

// Calls `body`, which may block and uses nothing of Python's, while other threads run Python.
template <class Body>
auto without_gil(Body&& body) {
  const nanobind::gil_scoped_release release;
  return body();
}

// Adds a read to the statistics of this process.
void count(const Stats& stats);

void bind_context(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);
void bind_chunks(nanobind::module_& module);
void bind_files(nanobind::module_& module);
void bind_memory(nanobind::module_& module);

}  // namespace headrace::python
