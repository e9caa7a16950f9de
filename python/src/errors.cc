#include "errors.h"

#include <string>

namespace nb = nanobind;

namespace headrace::python {
namespace {

// Leaked on purpose: static destructors may run after the interpreter is gone.
nb::dict& classes() {
  static nb::dict* const held = new nb::dict();
  return *held;
}

nb::object text_or_none(const std::string& text) {
  if (text.empty()) return nb::none();
  return nb::str(text.c_str(), text.size());
}

}  // namespace

void set_exception_classes(nb::dict given) { classes() = std::move(given); }

void raise(const Status& status) {
  const std::string_view name = code_name(status.code());
  const nb::str key(name.data(), name.size());
  nb::object type = classes().contains(key) ? nb::object(classes()[key]) : nb::borrow(PyExc_RuntimeError);
  const std::string line = status.to_string();
  // Keys are arbitrary stored bytes; invalid UTF-8 is escaped.
  nb::object text =
      nb::steal(PyUnicode_DecodeUTF8(line.data(), static_cast<Py_ssize_t>(line.size()), "backslashreplace"));
  if (!text.is_valid()) throw nb::python_error();
  nb::object error = type(text);
  const std::string_view layer = layer_name(status.layer());
  nb::setattr(error, "code", key);
  nb::setattr(error, "layer", nb::str(layer.data(), layer.size()));
  nb::object where = nb::steal(
      PyUnicode_DecodeUTF8(status.key().data(), static_cast<Py_ssize_t>(status.key().size()), "backslashreplace"));
  if (!where.is_valid()) throw nb::python_error();
  nb::setattr(error, "key", status.key().empty() ? nb::none() : where);
  nb::setattr(error, "offset", status.offset() ? nb::cast(*status.offset()) : nb::none());
  nb::setattr(error, "length", status.length() ? nb::cast(*status.length()) : nb::none());
  nb::setattr(error, "cause", text_or_none(status.cause()));
  nb::setattr(error, "errno", status.system_error() != 0 ? nb::cast(status.system_error()) : nb::none());
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

}  // namespace headrace::python
