// What the parts of the module share.
#pragma once

#include <nanobind/nanobind.h>

namespace headrace::python {

void bind_context(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);
void bind_files(nanobind::module_& module);
void bind_memory(nanobind::module_& module);

}  // namespace headrace::python
