// Fast reads of single chunks, which never wait.
#include <headrace/array.h>
#include <nanobind/nanobind.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

std::string_view text_of(nb::handle object) {
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_Check(object.ptr()) ? PyUnicode_AsUTF8AndSize(object.ptr(), &length) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {text, static_cast<std::size_t>(length)};
}

// Memory of a NumPy array with any strides.
class Memory {
 public:
  explicit Memory(nb::handle object) {
    ok_ = PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDES | PyBUF_WRITABLE) == 0;
    if (!ok_) PyErr_Clear();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (ok_) PyBuffer_Release(&view_);
  }
  bool ok() const { return ok_; }
  const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_{};
  bool ok_ = false;
};

// Reads what zarr requests of one stored object: integers and slices within the chunk, into slices of the output.
//
// Threads: any.
class ChunkReader {
 public:
  // `prefix`: the part of zarr's keys before the grid position; `native_prefix`: the same for keys of `store`.
  ChunkReader(Array array, Store store, Device device, std::string prefix, std::string native_prefix,
              std::string separator, std::vector<std::uint64_t> extents, std::uint64_t limit_bytes)
      : array_(std::move(array)),
        store_(std::move(store)),
        device_(std::move(device)),
        prefix_(std::move(prefix)),
        native_prefix_(std::move(native_prefix)),
        separator_(std::move(separator)),
        extents_(std::move(extents)),
        limit_bytes_(limit_bytes) {}

  enum Outcome : int { kNotRead, kRead, kMissing };

  // kMissing: the chunk is not stored, and `out` holds the fill value. kNotRead: another path must read it, and `out`
  // is
  // undefined: the read failed, the selection is unsupported or, with `at_hand`, the data is not in the page cache.
  int read(nb::handle key, nb::handle inside, nb::handle places, nb::handle out, bool at_hand) const {
    const Memory memory(out);
    if (!memory.ok()) return kNotRead;
    const Py_buffer& view = memory.view();
    if (static_cast<std::uint64_t>(view.len) > limit_bytes_ || view.len == 0 ||
        static_cast<std::uint64_t>(view.itemsize) != array_.info().dtype.item_bytes) {
      return kNotRead;
    }
    const std::string_view name = text_of(key);
    std::vector<ReadPart> parts(1);
    if (!select(name, inside, places, view, parts[0].selection)) return kNotRead;
    parts[0].tensor = view_of(static_cast<std::byte*>(view.buf), array_.info().dtype,
                              {view.shape, view.shape + view.ndim}, {view.strides, view.strides + view.ndim});
    const std::string native = native_prefix_ + std::string(name.substr(prefix_.size()));
    Stats stats;
    const bool done = without_gil([&] {
      return (!at_hand || store_.at_hand(native, limit_bytes_)) && array_.read_many(parts, device_, {}, &stats).ok();
    });
    // For a shard, the count is of missing inner chunks, not of the object.
    if (!done || (stats.missing_chunks != 0 && !array_.info().shard_shape.empty())) return kNotRead;
    count(stats);
    return stats.missing_chunks == 0 ? kRead : kMissing;
  }

 private:
  // Determines the chunk's grid position and the selection in array coordinates. Returns false unless the selection
  // consists of integers and slices, and covers the whole output.
  bool select(std::string_view key, nb::handle inside, nb::handle places, const Py_buffer& out,
              Selection& selection) const {
    if (!key.starts_with(prefix_) || !PyTuple_Check(inside.ptr()) || !PyTuple_Check(places.ptr())) return false;
    key.remove_prefix(prefix_.size());
    const std::size_t axes = extents_.size();
    if (static_cast<std::size_t>(PyTuple_Size(inside.ptr())) != axes || PyTuple_Size(places.ptr()) != out.ndim) {
      return false;
    }
    selection.resize(axes);
    int kept = 0;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      if (axis != 0) {
        if (!key.starts_with(separator_)) return false;
        key.remove_prefix(separator_.size());
      }
      std::uint64_t position = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), position);
      if (error != std::errc() || position > (std::uint64_t{1} << 40)) return false;
      key.remove_prefix(static_cast<std::size_t>(end - key.data()));
      const std::uint64_t extent = extents_[axis];
      if (extent > (std::uint64_t{1} << 62) / (position + 1)) return false;
      const auto at = static_cast<std::int64_t>(position * extent);
      PyObject* const wanted = PyTuple_GetItem(inside.ptr(), static_cast<Py_ssize_t>(axis));
      SelectionItem& item = selection[axis];
      if (PySlice_Check(wanted)) {
        if (kept == out.ndim || !along(wanted, PyTuple_GetItem(places.ptr(), kept), extent, out.shape[kept], item)) {
          return false;
        }
        *item.start += at;
        *item.stop += at;
        ++kept;
      } else if (PyLong_Check(wanted) && !PyBool_Check(wanted)) {
        int overflow = 0;
        const long long index = PyLong_AsLongLongAndOverflow(wanted, &overflow);
        if (overflow != 0 || index < 0 || static_cast<std::uint64_t>(index) >= extent) return false;
        item.kind = SelectionItem::Kind::kIndex;
        item.start = at + index;
      } else {
        return false;
      }
    }
    return key.empty() && kept == out.ndim;
  }

  // Converts a slice of the chunk. It must fill the output along its axis.
  static bool along(PyObject* wanted, PyObject* place, std::uint64_t extent, Py_ssize_t length, SelectionItem& item) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (!PySlice_Check(place) || PySlice_Unpack(place, &start, &stop, &step) != 0) return failed();
    if (start != 0 || stop != length || step != 1) return false;
    if (PySlice_Unpack(wanted, &start, &stop, &step) != 0) return failed();
    if (step < 1 || PySlice_AdjustIndices(static_cast<Py_ssize_t>(extent), &start, &stop, step) != length) return false;
    item.kind = SelectionItem::Kind::kSlice;
    item.start = start;
    item.stop = stop;
    item.step = step;
    return true;
  }
  static bool failed() {
    PyErr_Clear();
    return false;
  }

  Array array_;
  Store store_;
  Device device_;
  std::string prefix_, native_prefix_, separator_;
  std::vector<std::uint64_t> extents_;
  std::uint64_t limit_bytes_;
};

}  // namespace

void bind_chunks(nb::module_& module) {
  nb::class_<ChunkReader>(module, "ChunkReader")
      .def(nb::init<Array, Store, Device, std::string, std::string, std::string, std::vector<std::uint64_t>,
                    std::uint64_t>(),
           "array"_a, "store"_a, "device"_a, "prefix"_a, "native_prefix"_a, "separator"_a, "extents"_a, "limit_bytes"_a)
      .def("read", &ChunkReader::read, "key"_a, "inside"_a, "places"_a, "out"_a, "at_hand"_a,
           "1: `out` holds the chunk, 2: it is not stored, and `out` is filled, 0: it has to be read in another way.");
}

}  // namespace headrace::python
