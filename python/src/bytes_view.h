// BytesView: the memory of a Python object with the buffer protocol.
//
// Threads: create and destroy it with the GIL held.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

namespace headrace::python {

// A read-only, contiguous view.
class BytesView {
 public:
  explicit BytesView(nanobind::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nanobind::python_error();
  }
  BytesView(const BytesView&) = delete;
  BytesView& operator=(const BytesView&) = delete;
  ~BytesView() { PyBuffer_Release(&view_); }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

}  // namespace headrace::python
