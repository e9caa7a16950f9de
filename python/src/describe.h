// Converts the library's values to Python objects.
//
// Threads: call with the GIL held.
#pragma once

#include <headrace/dtype.h>
#include <nanobind/nanobind.h>

#include <vector>

#include "casters.h"

namespace headrace::python {

template <class T>
nanobind::tuple to_tuple(const std::vector<T>& values) {
  nanobind::list list;
  for (const T& value : values) list.append(nanobind::cast(value));
  return nanobind::tuple(list);
}

// Returns (kind, item_bytes, name, unit, fields), where fields are (name, type, shape).
inline nanobind::tuple describe(const DataType& type) {
  static constexpr const char* kKinds[] = {"bool",    "int",      "uint",      "float",         "bfloat16",
                                           "complex", "datetime", "timedelta", "bytes",         "unicode",
                                           "raw",     "struct",   "string",    "variable_bytes"};
  nanobind::list fields;
  for (const DataType::Field& field : type.fields) {
    fields.append(nanobind::make_tuple(field.name, describe(field.type), to_tuple(field.shape)));
  }
  return nanobind::make_tuple(kKinds[static_cast<std::size_t>(type.kind)], type.item_bytes, type.name, type.unit,
                              nanobind::tuple(fields));
}

}  // namespace headrace::python
