// Converts failures to Python exceptions.
//
// Threads: call with the GIL held.
#pragma once

#include <headrace/status.h>
#include <nanobind/nanobind.h>

#include <utility>

namespace headrace::python {

// Throws the Python exception class of the status code, with code, layer, key, offset, length and cause.
[[noreturn]] void raise(const Status& status);
inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

// Sets the exception classes, by code_name(). They are kept until the interpreter exits.
void set_exception_classes(nanobind::dict classes);

}  // namespace headrace::python
