// headrace._core: what headrace's Python package is written on. Nothing here is public; headrace/*.py is.
//
// Every call that may block gives up the GIL.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "errors.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
#ifdef NDEBUG
  // Users keep arrays until the interpreter ends, which then may not take them apart.
  nb::set_leak_warnings(false);
#endif
  module.attr("version") = HEADRACE_PROJECT_VERSION;
  module.def("set_exception_classes", &headrace::python::set_exception_classes, nb::arg("classes"));
  headrace::python::bind_exit_gate(module);
  headrace::python::bind_context(module);
  headrace::python::bind_memory(module);
  headrace::python::bind_arrays(module);
  headrace::python::bind_chunks(module);
  headrace::python::bind_files(module);
  headrace::python::bind_loader(module);
  headrace::python::bind_cache(module);
}
