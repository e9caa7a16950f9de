#include "to_selection.h"

#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <vector>

#include "casters.h"

namespace nb = nanobind;

namespace headrace::python {
namespace {

using Kind = SelectionItem::Kind;

[[noreturn]] void refuse(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  throw nb::python_error();
}

std::string type_of(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

// Anything with __index__ except booleans, which are masks.
bool is_integer(nb::handle object) { return PyIndex_Check(object.ptr()) != 0 && !PyBool_Check(object.ptr()); }

std::int64_t to_integer(nb::handle object) {
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) refuse(PyExc_IndexError, "index " + nb::cast<std::string>(nb::str(index)) + " is out of range");
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

// A slice bound; values beyond 64 bits saturate.
std::optional<std::int64_t> to_bound(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  if (!is_integer(object)) {
    refuse(PyExc_TypeError, "slice indices must be integers or None, not " + type_of(object));
  }
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const Py_ssize_t value = PyNumber_AsSsize_t(index.ptr(), nullptr);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

SelectionItem slice_item(nb::handle object, Indexing indexing) {
  const nb::object start = object.attr("start"), stop = object.attr("stop"), step = object.attr("step");
  SelectionItem item;
  item.kind = indexing == Indexing::kBlocks ? Kind::kBlocks : Kind::kSlice;
  item.start = to_bound(start);
  item.stop = to_bound(stop);
  item.step = to_bound(step).value_or(1);
  if (item.step == 0) refuse(PyExc_ValueError, "slice step cannot be zero");
  if (item.step < 0) {
    refuse(PyExc_IndexError, "negative slice steps are not read; select with a positive step and flip the result");
  }
  return item;
}

SelectionItem integer_item(nb::handle object, Indexing indexing) {
  const std::int64_t value = to_integer(object);
  if (indexing == Indexing::kBlocks) return block(value);
  if (indexing == Indexing::kPoints) {
    SelectionItem item = index_list({value});
    item.kind = Kind::kPoints;
    return item;
  }
  SelectionItem item;
  item.kind = Kind::kIndex;
  item.start = value;
  return item;
}

template <class T>
std::vector<std::int64_t> integers_of(const nb::ndarray<nb::ro>& array) {
  std::vector<std::int64_t> out(array.size());
  const std::int64_t stride = array.ndim() == 0 ? 0 : array.stride(0);
  const T* const data = static_cast<const T*>(array.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const T value = data[static_cast<std::int64_t>(i) * stride];
    if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>) {
      if (value > static_cast<T>(INT64_MAX)) refuse(PyExc_IndexError, "an index is out of range");
    }
    out[i] = static_cast<std::int64_t>(value);
  }
  return out;
}

// numpy.asarray() of a list. Existing arrays are returned unchanged, except for conversion to native byte order.
nb::object as_array(nb::handle object) {
  const bool is_array = nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "shape");
  const nb::object array = is_array ? nb::borrow(object) : nb::module_::import_("numpy").attr("asarray")(object);
  const nb::object type = nb::getattr(array, "dtype", nb::none());
  if (nb::cast<bool>(nb::getattr(type, "isnative", nb::bool_(true)))) return array;
  return array.attr("astype")(type.attr("newbyteorder")("="));
}

SelectionItem list_item(nb::handle object, Indexing indexing, std::size_t axis) {
  if (indexing == Indexing::kBlocks) {
    refuse(PyExc_IndexError, "blocks are selected by integers and slices, not by " + type_of(object));
  }
  const nb::object held = as_array(object);
  nb::ndarray<nb::ro> array;
  // NumPy makes an array of floats of an empty list.
  if (nb::cast<std::size_t>(held.attr("size")) == 0) {
    SelectionItem item = index_list({});
    if (indexing == Indexing::kPoints) item.kind = Kind::kPoints;
    return item;
  }
  if (!nb::try_cast(held, array) || array.device_type() != nb::device::cpu::value) {
    refuse(PyExc_IndexError, "axis " + std::to_string(axis) +
                                 ": an index must be an integer, a slice, an ellipsis, or a "
                                 "list of integers or booleans in host memory, not " +
                                 type_of(object));
  }
  if (array.ndim() != 1) {
    refuse(PyExc_IndexError, "axis " + std::to_string(axis) + ": a list of indices has one dimension, this one has " +
                                 std::to_string(array.ndim()));
  }
  const nb::dlpack::dtype type = array.dtype();
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (code == nb::dlpack::dtype_code::Bool) {
    if (indexing == Indexing::kPoints) {
      refuse(PyExc_IndexError,
             "points are lists of integers, one list for each dimension; or one mask of the array's shape");
    }
    std::vector<bool> where(array.size());
    const auto* data = static_cast<const std::uint8_t*>(array.data());
    for (std::size_t i = 0; i < where.size(); ++i) where[i] = data[static_cast<std::int64_t>(i) * array.stride(0)] != 0;
    return mask(where);
  }
  std::vector<std::int64_t> values;
  if (code == nb::dlpack::dtype_code::Int) {
    values = type.bits == 64   ? integers_of<std::int64_t>(array)
             : type.bits == 32 ? integers_of<std::int32_t>(array)
             : type.bits == 16 ? integers_of<std::int16_t>(array)
                               : integers_of<std::int8_t>(array);
  } else if (code == nb::dlpack::dtype_code::UInt) {
    values = type.bits == 64   ? integers_of<std::uint64_t>(array)
             : type.bits == 32 ? integers_of<std::uint32_t>(array)
             : type.bits == 16 ? integers_of<std::uint16_t>(array)
                               : integers_of<std::uint8_t>(array);
  } else {
    refuse(PyExc_IndexError, "axis " + std::to_string(axis) + ": indices must be integers or booleans");
  }
  SelectionItem item = index_list(std::move(values));
  if (indexing == Indexing::kPoints) item.kind = Kind::kPoints;
  return item;
}

SelectionItem to_item(nb::handle object, Indexing indexing, std::size_t axis) {
  if (PySlice_Check(object.ptr())) {
    if (indexing == Indexing::kPoints) {
      refuse(PyExc_IndexError, "points are integers and lists of integers; a slice belongs to oindex");
    }
    return slice_item(object, indexing);
  }
  if (object.ptr() == Py_Ellipsis) {
    SelectionItem item;
    item.kind = Kind::kEllipsis;
    return item;
  }
  if (is_integer(object)) {
    // A zero-dimensional integer array is an integer too; other arrays are lists.
    if (!nb::hasattr(object, "ndim") || nb::cast<int>(object.attr("ndim")) == 0) return integer_item(object, indexing);
  }
  if (object.is_none())
    refuse(PyExc_IndexError, "None adds a dimension, which a read does not support: reshape the result");
  if (nb::isinstance<nb::str>(object) || nb::isinstance<nb::float_>(object) || PyBool_Check(object.ptr())) {
    refuse(PyExc_IndexError, "axis " + std::to_string(axis) + ": " + type_of(object) + " is not an index of an array");
  }
  return list_item(object, indexing, axis);
}

// A single mask with the array's own shape, for points.
std::optional<Selection> whole_mask(nb::handle object, std::span<const std::uint64_t> shape) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "ndim")) return std::nullopt;
  nb::ndarray<nb::ro> given;
  const nb::object contiguous = nb::module_::import_("numpy").attr("ascontiguousarray")(object);
  if (!nb::try_cast(contiguous, given) || given.dtype() != nb::dtype<bool>()) return std::nullopt;
  bool same = given.ndim() == shape.size();
  for (std::size_t i = 0; same && i < shape.size(); ++i) same = given.shape(i) == shape[i];
  if (!same) refuse(PyExc_IndexError, "a mask of points has the shape of the array");
  auto points = mask_points({static_cast<const std::uint8_t*>(given.data()), given.size()}, shape);
  if (!points.ok()) refuse(PyExc_IndexError, points.status().message());
  return std::move(*points);
}

}  // namespace

Selection to_selection(nb::handle object, Indexing indexing, std::span<const std::uint64_t> shape) {
  Selection selection;
  if (PyTuple_Check(object.ptr())) {
    const auto items = nb::borrow<nb::tuple>(object);
    if (indexing == Indexing::kPoints && items.size() == 1) {
      if (auto points = whole_mask(items[0], shape)) return std::move(*points);
    }
    selection.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) selection.push_back(to_item(items[i], indexing, i));
  } else {
    if (indexing == Indexing::kPoints) {
      if (auto points = whole_mask(object, shape)) return std::move(*points);
    }
    selection.push_back(to_item(object, indexing, 0));
  }
  return selection;
}

}  // namespace headrace::python
