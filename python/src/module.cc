// headrace._core: the native part of the Python package. It is private; the public interface is headrace/*.py.
//
// Every call that may block releases the GIL.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "errors.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
#ifdef NDEBUG
  // Users keep arrays until the interpreter exits, when they cannot be destroyed any more.
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
