// Failures as Python exceptions.
//
// Threads: with the GIL held.
#pragma once

#include <headrace/status.h>
#include <nanobind/nanobind.h>

#include <utility>

namespace headrace::python {

// Throws what `status` is in Python: the exception class of its code, with code, layer, key, offset, length and cause.
[[noreturn]] void raise(const Status& status);
inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

// `classes`: the exception class by code_name(); kept until the interpreter ends.
void set_exception_classes(nanobind::dict classes);

}  // namespace headrace::python
