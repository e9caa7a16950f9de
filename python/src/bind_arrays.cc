// Arrays, groups, and reading them.
#include <headrace/array.h>
#include <headrace/group.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "device_memory.h"
#include "errors.h"
#include "to_selection.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

constexpr auto kSignalPeriod = std::chrono::milliseconds(50);       // how soon Ctrl-C is noticed
constexpr std::uint64_t kShortReadBytes = std::uint64_t{16} << 20;  // over before anybody could press it

// Of every read of this process that succeeded or failed.
std::mutex g_total_mutex;
Stats g_total;  // guarded by g_total_mutex

void count(const Stats& stats) {
  const std::lock_guard lock(g_total_mutex);
  g_total += stats;
}

template <class T>
nb::tuple to_tuple(const std::vector<T>& values) {
  nb::list list;
  for (const T& value : values) list.append(nb::cast(value));
  return nb::tuple(list);
}

// (kind, item_bytes, name, unit, fields), fields being (name, type, shape).
nb::tuple describe(const DataType& type) {
  static constexpr const char* kKinds[] = {"bool",    "int",      "uint",      "float",         "bfloat16",
                                           "complex", "datetime", "timedelta", "bytes",         "unicode",
                                           "raw",     "struct",   "string",    "variable_bytes"};
  nb::list fields;
  for (const DataType::Field& field : type.fields) {
    fields.append(nb::make_tuple(field.name, describe(field.type), to_tuple(field.shape)));
  }
  return nb::make_tuple(kKinds[static_cast<std::size_t>(type.kind)], type.item_bytes, type.name, type.unit,
                        nb::tuple(fields));
}

// Text of a document, which is UTF-8 unless somebody made it otherwise.
nb::object text(const std::string& bytes) {
  nb::object out = nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
  if (!out.is_valid()) throw nb::python_error();
  return out;
}

nb::dict info_of(const Array& array) {
  const ArrayInfo& info = array.info();
  nb::dict out;
  out["zarr_format"] = info.zarr_format;
  out["shape"] = to_tuple(info.shape);
  out["chunk_shape"] = to_tuple(info.chunk_shape);
  out["shard_shape"] = to_tuple(info.shard_shape);
  out["chunk_grid"] = info.chunk_grid;
  out["dtype"] = describe(info.dtype);
  nb::list names;
  for (const auto& name : info.dimension_names) names.append(name ? text(*name) : nb::none());
  out["dimension_names"] = nb::tuple(names);
  out["codecs"] = to_tuple(info.codecs);
  out["outer_codecs"] = to_tuple(info.outer_codecs);
  nb::list on_gpu;
  for (const bool gpu : info.codec_on_gpu) on_gpu.append(nb::bool_(gpu));
  out["codec_on_gpu"] = nb::tuple(on_gpu);
  out["fill_text"] = text(info.fill_text);
  out["fill"] = nb::bytes(reinterpret_cast<const char*>(info.fill.data()), info.fill.size());
  out["attributes"] = text(info.attributes_json);
  out["decoded_bytes"] = info.decoded_bytes;
  out["chunk_count"] = info.chunk_count;
  out["lenient_uses"] = to_tuple(info.lenient_uses);
  out["decode_index"] = info.decode_index;
  return out;
}

struct Options {
  ReadOptions read;
  nb::object progress;  // kept as long as the read runs

  Options(std::uintptr_t stream, const std::string& dtype, double scale, double offset, bool fill_as_nan,
          nb::bytes missing, int placement, bool collect_errors, nb::object callback)
      : progress(std::move(callback)) {
    read.native_stream = reinterpret_cast<void*>(stream);
    read.dtype = dtype;
    read.scale = scale;
    read.offset = offset;
    read.fill_as_nan = fill_as_nan;
    const auto* const bytes = reinterpret_cast<const std::byte*>(missing.c_str());
    read.missing.assign(bytes, bytes + missing.size());
    read.placement = static_cast<Placement>(placement);
    read.collect_errors = collect_errors;
    if (!progress.is_none()) {
      read.progress = [call = nb::handle(progress)](std::uint64_t done, std::uint64_t total) {
        const nb::gil_scoped_acquire acquire;
        try {
          call(done, total);
        } catch (nb::python_error& error) {
          error.discard_as_unraisable("headrace: a progress callback");
        }
      };
    }
  }
};

// Where elements go: (pointer, shape, strides in bytes or None).
TensorView to_view(nb::handle target) {
  const auto parts = nb::cast<std::tuple<std::uintptr_t, std::vector<std::uint64_t>, nb::object>>(target);
  TensorView view;
  view.data = reinterpret_cast<std::byte*>(std::get<0>(parts));
  view.shape = std::get<1>(parts);
  if (!std::get<2>(parts).is_none()) {
    view.strides_bytes = nb::cast<std::vector<std::int64_t>>(std::get<2>(parts));
  }
  return view;
}

std::uint64_t bytes_of(const Array& array, const std::vector<std::uint64_t>& shape) {
  std::uint64_t bytes = array.info().dtype.item_bytes;
  for (const std::uint64_t extent : shape) {
    if (extent != 0 && bytes > (std::uint64_t{1} << 62) / extent) return std::uint64_t{1} << 62;
    bytes *= extent;
  }
  return bytes;
}

// A read under way, and the objects that it writes into.
class Reading {
 public:
  Reading(Completion completion, nb::object kept) : completion_(std::move(completion)), kept_(std::move(kept)) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  // What it writes into may go now, so it has to end first.
  ~Reading() {
    nb::gil_scoped_release release;
    completion_.cancel();
    (void)completion_.wait();
  }

  // Up to `seconds`; notices signals. False: not yet done.
  bool wait(double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            std::chrono::duration<double>(std::min(seconds, 1e9)));
    for (;;) {
      bool done = false;
      {
        nb::gil_scoped_release release;
        const auto left = end - std::chrono::steady_clock::now();
        done = completion_.wait_for(
            std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), kSignalPeriod));
      }
      if (done) return true;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (std::chrono::steady_clock::now() >= end) return false;
    }
  }
  bool done() const { return completion_.done(); }
  void cancel() const { completion_.cancel(); }
  // REQUIRES: done. Once.
  Stats finish() {
    const Status status = completion_.wait();
    if (!counted_) count(completion_.stats());
    counted_ = true;
    check(status);
    return completion_.stats();
  }
  nb::list errors() const {
    nb::list out;
    for (const ChunkError& error : completion_.errors()) {
      out.append(nb::make_tuple(error.key, error.offset, error.length, error.status.to_string()));
    }
    return out;
  }

 private:
  Completion completion_;
  nb::object kept_;
  bool counted_ = false;
};

std::unique_ptr<Reading> start_parts(const Array& array, const std::vector<ReadPart>& parts, const Device& device,
                                     const Options& options, nb::object kept) {
  auto started = without_gil([&] { return array.read_many_async(parts, device, options.read); });
  // The callback goes with what is kept.
  return std::make_unique<Reading>(take(std::move(started)), nb::make_tuple(kept, options.progress));
}

Stats run_parts(const Array& array, const std::vector<ReadPart>& parts, const Device& device, const Options& options) {
  std::uint64_t bytes = 0;
  for (const ReadPart& part : parts) bytes += bytes_of(array, part.tensor.shape);
  if (bytes > kShortReadBytes) {
    const auto reading = start_parts(array, parts, device, options, nb::none());
    while (!reading->wait(3600)) {
    }
    return reading->finish();
  }
  Stats stats;
  Status status;
  {
    nb::gil_scoped_release release;
    status = array.read_many(parts, device, options.read, &stats);
  }
  count(stats);
  check(status);
  return stats;
}

std::vector<ReadPart> to_parts(const Array& array, nb::handle selections, int indexing, nb::handle targets) {
  const auto given = nb::cast<nb::list>(selections);
  const auto views = nb::cast<nb::list>(targets);
  std::vector<ReadPart> parts;
  parts.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    parts.push_back({to_selection(given[i], static_cast<Indexing>(indexing), array.info().shape), to_view(views[i])});
  }
  return parts;
}

OpenOptions open_options(const std::string& lenient, bool consolidated, const std::string& index_directory,
                         bool revalidate = false) {
  OpenOptions options;
  options.lenient = lenient;
  options.consolidated = consolidated;
  options.index_directory = index_directory;
  options.revalidate = revalidate;
  return options;
}

nb::tuple read_strings(const Array& array, nb::handle selection, int indexing, std::uint64_t max_bytes) {
  const Selection wanted = to_selection(selection, static_cast<Indexing>(indexing), array.info().shape);
  VariableReadOptions options;
  options.max_bytes = max_bytes;
  auto result = without_gil([&] { return array.read_variable(wanted, options); });
  const VariableResult got = take(std::move(result));
  count(got.stats);
  nb::list items;
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    const std::string_view item = got[i];
    if (got.is_utf8()) {
      items.append(nb::str(item.data(), item.size()));
    } else {
      items.append(nb::bytes(item.data(), item.size()));
    }
  }
  return nb::make_tuple(to_tuple(got.shape()), items, got.stats);
}

void bind_stats(nb::module_& module) {
  nb::class_<Stats> stats(module, "Stats");
#define HEADRACE_STAT(field) stats.def_ro(#field, &Stats::field)
  HEADRACE_STAT(chunks);
  HEADRACE_STAT(missing_chunks);
  HEADRACE_STAT(gpu_chunks);
  HEADRACE_STAT(cpu_chunks);
  HEADRACE_STAT(returned_chunks);
  HEADRACE_STAT(indexed_chunks);
  HEADRACE_STAT(bad_indices);
  HEADRACE_STAT(waves);
  HEADRACE_STAT(requests);
  HEADRACE_STAT(objects_opened);
  HEADRACE_STAT(stored_bytes);
  HEADRACE_STAT(read_bytes);
  HEADRACE_STAT(bus_bytes);
  HEADRACE_STAT(decoded_bytes);
  HEADRACE_STAT(gpu_decoded_bytes);
  HEADRACE_STAT(cpu_decoded_bytes);
  HEADRACE_STAT(direct_bytes);
  HEADRACE_STAT(engine_bytes);
  HEADRACE_STAT(buffered_bytes);
  HEADRACE_STAT(memory_bytes);
  HEADRACE_STAT(mapped_bytes);
  HEADRACE_STAT(plan_seconds);
  HEADRACE_STAT(open_seconds);
  HEADRACE_STAT(read_seconds);
  HEADRACE_STAT(decode_seconds);
  HEADRACE_STAT(assemble_seconds);
  HEADRACE_STAT(copy_seconds);
  HEADRACE_STAT(wall_seconds);
  HEADRACE_STAT(engine);
  HEADRACE_STAT(path);
#undef HEADRACE_STAT
  stats.def(nb::init<>()).def("add", [](Stats& sum, const Stats& part) { sum += part; }, "part"_a);
  module.def("total_stats", [] {
    const std::lock_guard lock(g_total_mutex);
    return g_total;
  });
  module.def("reset_stats", [] {
    const std::lock_guard lock(g_total_mutex);
    g_total = Stats();
  });
}

}  // namespace

void bind_arrays(nb::module_& module) {
  bind_stats(module);

  nb::class_<Reading>(module, "Reading")
      .def("wait", &Reading::wait, "seconds"_a)
      .def("done", &Reading::done)
      .def("cancel", &Reading::cancel)
      .def("finish", &Reading::finish)
      .def("errors", &Reading::errors);

  nb::class_<Array>(module, "Array")
      .def_static(
          "open",
          [](const Store& store, const std::string& path, const std::string& lenient,
             const std::string& index_directory, bool revalidate) {
            return take(without_gil(
                [&] { return Array::open(store, path, open_options(lenient, true, index_directory, revalidate)); }));
          },
          "store"_a, "path"_a, "lenient"_a, "index_directory"_a, "revalidate"_a)
      .def_static(
          "from_document",
          [](const Store& store, const std::string& path, int zarr_format, const std::string& document,
             const std::string& lenient, bool revalidate) {
            return take(
                Array::from_document(store, path, zarr_format, document, open_options(lenient, true, {}, revalidate)));
          },
          "store"_a, "path"_a, "zarr_format"_a, "document"_a, "lenient"_a, "revalidate"_a)
      .def("info", &info_of)
      .def(
          "result_shape",
          [](const Array& array, nb::handle selection, int indexing) {
            const Selection wanted = to_selection(selection, static_cast<Indexing>(indexing), array.info().shape);
            const auto resolved = array.resolve(wanted);
            // What is wrong with a selection is what an index is blamed for.
            if (!resolved.ok() && resolved.status().code() == Code::kInvalidArgument) {
              throw nb::index_error(resolved.status().message().c_str());
            }
            check(resolved.ok() ? Status() : resolved.status());
            return to_tuple(resolved->shape);
          },
          "selection"_a.none(), "indexing"_a)
      .def(
          "result_dtype",
          [](const Array& array, const std::string& dtype, double scale, double offset, bool fill_as_nan) {
            ReadOptions options;
            options.dtype = dtype;
            options.scale = scale;
            options.offset = offset;
            options.fill_as_nan = fill_as_nan;
            return describe(take(result_dtype(array.info().dtype, options)));
          },
          "dtype"_a, "scale"_a, "offset"_a, "fill_as_nan"_a)
      .def(
          "read",
          [](const Array& array, nb::handle selections, int indexing, nb::handle targets, const Device& device,
             std::uintptr_t stream, const std::string& dtype, double scale, double offset, bool fill_as_nan,
             nb::bytes missing, int placement, bool collect_errors, nb::object progress) {
            const Options options(stream, dtype, scale, offset, fill_as_nan, std::move(missing), placement,
                                  collect_errors, std::move(progress));
            return run_parts(array, to_parts(array, selections, indexing, targets), device, options);
          },
          "selections"_a, "indexing"_a, "targets"_a, "device"_a, "stream"_a, "dtype"_a, "scale"_a, "offset"_a,
          "fill_as_nan"_a, "missing"_a, "placement"_a, "collect_errors"_a, "progress"_a.none(),
          "Reads each selection into its target, (pointer, shape, strides in bytes or None), all of them on `device`.")
      .def(
          "start",
          [](const Array& array, nb::handle selections, int indexing, nb::handle targets, const Device& device,
             std::uintptr_t stream, const std::string& dtype, double scale, double offset, bool fill_as_nan,
             nb::bytes missing, int placement, bool collect_errors, nb::object progress, nb::object kept) {
            const Options options(stream, dtype, scale, offset, fill_as_nan, std::move(missing), placement,
                                  collect_errors, std::move(progress));
            return start_parts(array, to_parts(array, selections, indexing, targets), device, options, std::move(kept));
          },
          "selections"_a, "indexing"_a, "targets"_a, "device"_a, "stream"_a, "dtype"_a, "scale"_a, "offset"_a,
          "fill_as_nan"_a, "missing"_a, "placement"_a, "collect_errors"_a, "progress"_a.none(), "kept"_a.none(),
          "The same, under way when it returns. `kept` lives as long as the result.")
      .def("read_strings", &read_strings, "selection"_a.none(), "indexing"_a, "max_bytes"_a,
           "(shape, list of str or bytes in C order, Stats) for elements of variable length.");

  nb::class_<Member>(module, "Member")
      .def_ro("path", &Member::path)
      .def_ro("is_array", &Member::is_array)
      .def_ro("zarr_format", &Member::zarr_format)
      .def_prop_ro("shape", [](const Member& member) { return to_tuple(member.shape); })
      .def_prop_ro("dtype", [](const Member& member) { return describe(member.dtype); })
      .def_prop_ro("error",
                   [](const Member& member) { return member.status.ok() ? std::string() : member.status.to_string(); });

  nb::class_<Group>(module, "Group")
      .def_static(
          "open",
          [](const Store& store, const std::string& path, const std::string& lenient, bool consolidated) {
            return take(without_gil([&] { return Group::open(store, path, open_options(lenient, consolidated, {})); }));
          },
          "store"_a, "path"_a, "lenient"_a, "consolidated"_a)
      .def_prop_ro("path", [](const Group& group) { return group.info().path; })
      .def_prop_ro("zarr_format", [](const Group& group) { return group.info().zarr_format; })
      .def_prop_ro("attributes", [](const Group& group) { return text(group.info().attributes_json); })
      .def_prop_ro("consolidated", [](const Group& group) { return group.info().consolidated; })
      .def_prop_ro("implicit", [](const Group& group) { return group.info().implicit; })
      .def("members", [](const Group& group) { return take(without_gil([&] { return group.members(); })); })
      .def("children", [](const Group& group) { return take(without_gil([&] { return group.children(); })); })
      .def(
          "array",
          [](const Group& group, const std::string& path) {
            return take(without_gil([&] { return group.array(path); }));
          },
          "path"_a)
      .def(
          "group",
          [](const Group& group, const std::string& path) {
            return take(without_gil([&] { return group.group(path); }));
          },
          "path"_a);
}

}  // namespace headrace::python
