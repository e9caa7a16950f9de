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
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
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
constexpr std::uint64_t kItemsBetweenSignals = 1 << 16;             // strings

// Of every read of this process that succeeded or failed.
std::mutex g_total_mutex;
Stats g_total;  // guarded by g_total_mutex

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

// `callback`: None, or a function of (chunks done, chunks in all), kept by the caller while the read runs.
std::function<void(std::uint64_t, std::uint64_t)> to_progress(nb::handle callback) {
  if (callback.is_none()) return nullptr;
  return [callback](std::uint64_t done, std::uint64_t total) {
    const nb::gil_scoped_acquire acquire;
    try {
      callback(done, total);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("headrace: a progress callback");
    }
  };
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
    read.progress = to_progress(progress);
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

// At most 2^62.
std::uint64_t bytes_of(std::uint64_t item_bytes, const std::vector<std::uint64_t>& shape) {
  std::uint64_t bytes = item_bytes;
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
    if (forked()) {
      new Completion(std::move(completion_));  // never ends, and nobody writes here
    } else {
      stop();
    }
  }

  // Up to `seconds`; notices signals. False: not yet done.
  bool wait(double seconds) const {
    check_process();
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
  bool done() const {
    check_process();
    return completion_.done();
  }
  void cancel() const {
    if (!forked()) completion_.cancel();
  }
  // REQUIRES: done.
  Stats finish() {
    check_process();
    const Status status = completion_.wait();
    if (!counted_.exchange(true)) count(completion_.stats());
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

  // For the garbage collector: what is kept may lead back here, as a callback does that knows the read.
  PyObject* kept() const { return kept_.ptr(); }
  void let_go() {
    if (!forked()) stop();
    kept_.reset();
  }

 private:
  void stop() const {
    nb::gil_scoped_release release;
    completion_.cancel();
    (void)completion_.wait();
  }
  // In a fork()ed child the threads that read are missing.
  bool forked() const { return process_ != getpid(); }
  void check_process() const {
    if (forked()) raise(Status(Code::kForked, Layer::kApi, "this read was started before fork()"));
  }

  const pid_t process_ = getpid();
  Completion completion_;
  nb::object kept_;
  std::atomic<bool> counted_ = false;
};

int traverse_reading(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Reading>(self)->kept());
  return 0;
}

int clear_reading(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Reading>(self)->let_go();
  return 0;
}

PyType_Slot g_reading_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_reading)},
                                 {Py_tp_clear, reinterpret_cast<void*>(&clear_reading)},
                                 {0, nullptr}};

std::unique_ptr<Reading> start_parts(const Array& array, const std::vector<ReadPart>& parts, const Device& device,
                                     const Options& options, nb::object kept) {
  auto started = without_gil([&] { return array.read_many_async(parts, device, options.read); });
  // The callback goes with what is kept.
  return std::make_unique<Reading>(take(std::move(started)), nb::make_tuple(kept, options.progress));
}

Stats run_parts(const Array& array, const std::vector<ReadPart>& parts, const Device& device, const Options& options) {
  std::uint64_t bytes = 0;
  for (const ReadPart& part : parts) bytes += bytes_of(array.info().dtype.item_bytes, part.tensor.shape);
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

// Runs `body` in a thread of its own while this one looks for signals; sets `cancel` where one says to stop.
template <class Body>
auto run_interruptibly(std::atomic<bool>& cancel, Body&& body) {
  auto running = std::async(std::launch::async, std::forward<Body>(body));
  for (;;) {
    const bool done = without_gil([&] { return running.wait_for(kSignalPeriod) == std::future_status::ready; });
    if (done) return running.get();
    if (PyErr_CheckSignals() == 0) continue;
    cancel = true;
    without_gil([&] { running.wait(); });
    throw nb::python_error();
  }
}

nb::list to_list(const VariableResult& result) {
  nb::list items;
  for (std::uint64_t i = 0; i < result.size(); ++i) {
    const std::string_view item = result[i];
    if (result.is_utf8()) {
      items.append(nb::str(item.data(), item.size()));
    } else {
      items.append(nb::bytes(item.data(), item.size()));
    }
    if (i % kItemsBetweenSignals == 0 && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return items;
}

nb::tuple read_strings(const Array& array, nb::handle selection, int indexing, std::uint64_t max_bytes,
                       nb::object progress) {
  const Selection wanted = to_selection(selection, static_cast<Indexing>(indexing), array.info().shape);
  std::atomic<bool> cancel = false;
  VariableReadOptions options;
  options.max_bytes = max_bytes;
  options.cancel = &cancel;
  options.progress = to_progress(progress);
  const auto read = [&] { return array.read_variable(wanted, options); };
  // A thread costs more than a few strings do.
  const bool short_read = bytes_of(1, take(array.resolve(wanted)).shape) <= kItemsBetweenSignals;
  const VariableResult got = take(short_read ? without_gil(read) : run_interruptibly(cancel, read));
  count(got.stats);
  return nb::make_tuple(to_list(got), got.stats);
}

// Every field, by name.
#define HEADRACE_STATS(each)                                                                                           \
  each(chunks) each(missing_chunks) each(gpu_chunks) each(cpu_chunks) each(returned_chunks) each(indexed_chunks)       \
      each(bad_indices) each(waves) each(requests) each(objects_opened) each(stored_bytes) each(read_bytes)            \
          each(bus_bytes) each(decoded_bytes) each(gpu_decoded_bytes) each(cpu_decoded_bytes) each(direct_bytes)       \
              each(engine_bytes) each(buffered_bytes) each(memory_bytes) each(mapped_bytes) each(plan_seconds)         \
                  each(open_seconds) each(read_seconds) each(decode_seconds) each(assemble_seconds) each(copy_seconds) \
                      each(wall_seconds) each(engine) each(path)

std::string repr_of(const Stats& stats) {
  std::ostringstream shown;
  const char* before = "headrace.Stats(";
#define HEADRACE_SHOW(field)                         \
  if (stats.field != decltype(stats.field)()) {      \
    shown << before << #field << '=' << stats.field; \
    before = ", ";                                   \
  }
  HEADRACE_STATS(HEADRACE_SHOW)
#undef HEADRACE_SHOW
  return (shown.tellp() == 0 ? "headrace.Stats(" : shown.str()) + ")";
}

void bind_stats(nb::module_& module) {
  nb::class_<Stats> stats(module, "Stats");
#define HEADRACE_STAT(field) stats.def_ro(#field, &Stats::field);
  HEADRACE_STATS(HEADRACE_STAT)
#undef HEADRACE_STAT
  stats.def(nb::init<>())
      .def(
          "add", [](Stats& sum, const Stats& part) { sum += part; }, "part"_a);
  stats.def("__repr__", &repr_of);
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

void count(const Stats& stats) {
  const std::lock_guard lock(g_total_mutex);
  g_total += stats;
}

void bind_arrays(nb::module_& module) {
  bind_stats(module);

  nb::class_<Reading>(module, "Reading", nb::type_slots(g_reading_slots))
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
      .def("read_strings", &read_strings, "selection"_a.none(), "indexing"_a, "max_bytes"_a, "progress"_a.none(),
           "(list of str or bytes in C order, Stats) for elements of variable length.");

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
