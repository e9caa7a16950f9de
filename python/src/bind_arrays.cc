// Bindings of arrays and groups, and of reads.
#include <headrace/array.h>
#include <headrace/group.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bind.h"
#include "describe.h"
#include "device_memory.h"
#include "errors.h"
#include "exit_gate.h"
#include "read_cost.h"
#include "to_selection.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

// Limits for reads of strings.
constexpr std::uint64_t kItemsBetweenSignals = 1 << 16;
constexpr std::uint64_t kBytesBetweenSignals = std::uint64_t{16} << 20;
constexpr std::uint64_t kShortStringChunks = 4;

// Total of all reads of this process, successful or not.
std::mutex g_total_mutex;
Stats g_total;  // guarded by g_total_mutex

// Text of a document; invalid UTF-8 is replaced.
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

// The exception that a progress function raised: it stops the read, which then rethrows it. Use with the GIL held.
class Raised {
 public:
  void keep() const {
    if (*what_ == nullptr) *what_ = std::current_exception();
  }
  void raise() const {
    if (*what_ != nullptr) std::rethrow_exception(std::exchange(*what_, nullptr));
  }

 private:
  std::shared_ptr<std::exception_ptr> what_ = std::make_shared<std::exception_ptr>();
};

// `callback`: None, or a function of (chunks done, chunks in all). The caller keeps it alive while the read runs.
std::function<void(std::uint64_t, std::uint64_t)> to_progress(nb::handle callback, const Raised& raised) {
  if (callback.is_none()) return nullptr;
  return [callback, raised](std::uint64_t done, std::uint64_t total) mutable {
    const EnteredPython entered;
    if (!entered) return;
    try {
      callback(done, total);
    } catch (nb::python_error&) {
      raised.keep();
      throw std::runtime_error("a Python exception");  // tells the library to stop the read
    }
  };
}

struct Options {
  ReadOptions read;
  nb::object progress;  // kept alive while the read runs
  Raised raised;        // by `progress`

  Options(std::uintptr_t stream, const std::string& dtype, double scale, double offset, bool fill_as_nan,
          nb::bytes missing, bool damage_as_nan, int placement, bool whole, bool collect_errors, nb::object callback,
          const Cancel* cancel)
      : progress(std::move(callback)) {
    read.native_stream = reinterpret_cast<void*>(stream);
    read.dtype = dtype;
    read.scale = scale;
    read.offset = offset;
    read.fill_as_nan = fill_as_nan;
    const auto* const bytes = reinterpret_cast<const std::byte*>(missing.c_str());
    read.missing.assign(bytes, bytes + missing.size());
    read.damage_as_nan = damage_as_nan;
    read.placement = static_cast<Placement>(placement);
    read.verify = whole ? Verify::kWhole : Verify::kAsRead;
    read.collect_errors = collect_errors;
    if (cancel != nullptr) read.cancel = *cancel;
    read.progress = to_progress(progress, raised);
  }
};

// The target of a read: (pointer, shape, strides in bytes or None) of an object that owns the memory.
TensorView to_view(nb::handle target, const DataType& dtype) {
  auto parts = nb::cast<std::tuple<std::uintptr_t, std::vector<std::uint64_t>, nb::object>>(target);
  std::vector<std::int64_t> strides;
  if (!std::get<2>(parts).is_none()) strides = nb::cast<std::vector<std::int64_t>>(std::get<2>(parts));
  return view_of(reinterpret_cast<std::byte*>(std::get<0>(parts)), dtype, std::move(std::get<1>(parts)),
                 std::move(strides));
}

// A running read, and the objects that it writes to.
class Reading {
 public:
  Reading(Completion completion, nb::object kept, Raised raised)
      : completion_(std::move(completion)),
        kept_(std::move(kept)),
        raised_(std::move(raised)),
        stopped_at_exit_([read = completion_] { read.cancel(); },
                         [read = completion_](std::chrono::nanoseconds timeout) { return read.wait_for(timeout); }) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  // The targets may be freed after this, so the read must end first.
  ~Reading() {
    if (forked()) {
      new Completion(std::move(completion_));  // leaked: in the child it never ends, and nothing writes
    } else {
      stop();
    }
  }

  // Waits up to `seconds` and handles signals. Returns whether the read is done.
  bool wait(double seconds) const {
    check_process();
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            std::chrono::duration<double>(std::min(seconds, 1e9)));
    for (;;) {
      bool done = false;
      {
        const ReleasedGil released;
        const auto left = end - std::chrono::steady_clock::now();
        done = completion_.wait_for(
            std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), kSignalPeriod));
      }
      if (done) return true;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (std::chrono::steady_clock::now() >= end) return false;
    }
  }
  bool done() {
    check_process();
    if (!completion_.done()) return false;
    release_targets();
    return true;
  }
  void cancel() const {
    if (!forked()) completion_.cancel();
  }
  // REQUIRES: done.
  Stats finish() {
    check_process();
    const Status status = completion_.wait();
    release_targets();
    if (!counted_.exchange(true)) count(completion_.stats());
    raised_.raise();
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

  // For the garbage collector: the objects kept may refer back here, such as a callback that holds the read.
  PyObject* kept() const { return kept_.ptr(); }
  void clear() {
    if (!forked()) stop();
    release_targets();
  }

 private:
  // Releases the targets, which nothing writes to any more.
  void release_targets() {
    // Moved out first: destructors that run now must find this empty.
    const nb::object gone = std::move(kept_);
  }
  void stop() const {
    const ReleasedGil released;
    completion_.cancel();
    (void)completion_.wait();
  }
  // A fork()ed child lacks the threads that perform the read.
  bool forked() const { return process_ != getpid(); }
  void check_process() const {
    if (forked()) raise(Status(Code::kForked, Layer::kApi, "this read was started before fork()"));
  }

  const pid_t process_ = getpid();
  Completion completion_;
  nb::object kept_;
  const Raised raised_;
  StoppedAtExit stopped_at_exit_;
  std::atomic<bool> counted_ = false;
};

int traverse_reading(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Reading>(self)->kept());
  return 0;
}

int clear_reading(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Reading>(self)->clear();
  return 0;
}

PyType_Slot g_reading_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_reading)},
                                 {Py_tp_clear, reinterpret_cast<void*>(&clear_reading)},
                                 {0, nullptr}};

std::unique_ptr<Reading> start_parts(const Array& array, const std::vector<ReadPart>& parts, const Device& device,
                                     const Options& options, nb::object kept) {
  auto started = without_gil([&] { return array.read_many_async(parts, device, options.read); });
  // The callback is kept alive together with the targets.
  return std::make_unique<Reading>(take(std::move(started)), nb::make_tuple(kept, options.progress), options.raised);
}

Stats run_parts(const Array& array, const std::vector<ReadPart>& parts, const Device& device, const Options& options) {
  std::uint64_t bytes = 0;
  for (const ReadPart& part : parts) {
    bytes += cost_of(array, part.selection).bytes;
    if (bytes > kShortReadBytes) break;
  }
  if (bytes > kShortReadBytes) {
    const auto reading = start_parts(array, parts, device, options, nb::none());
    while (!reading->wait(3600)) {
    }
    return reading->finish();
  }
  Stats stats;
  Status status;
  {
    const ReleasedGil released;
    status = array.read_many(parts, device, options.read, &stats);
  }
  count(stats);
  options.raised.raise();
  check(status);
  return stats;
}

std::vector<ReadPart> to_parts(const Array& array, nb::handle selections, int indexing, nb::handle targets,
                               const Options& options) {
  const DataType dtype = take(result_dtype(array.info().dtype, options.read));
  const auto given = nb::cast<nb::list>(selections);
  const auto views = nb::cast<nb::list>(targets);
  std::vector<ReadPart> parts;
  parts.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    parts.push_back(
        {to_selection(given[i], static_cast<Indexing>(indexing), array.info().shape), to_view(views[i], dtype)});
  }
  return parts;
}

// Returns an Array or a Group.
nb::object open_node(const Store& store, const std::string& path, const OpenOptions& options) {
  auto node = take(without_gil([&] { return open(store, path, options); }));
  return std::visit([](auto& opened) { return nb::cast(std::move(opened)); }, node);
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

// Runs `body` on another thread, and cancels it by `cancel` on a signal or if the caller's token (may be null) is
// cancelled.
void run_interruptibly(const Cancel& cancel, const Cancel* callers, const std::function<void()>& body) {
  const std::shared_future<void> running = std::async(std::launch::async, body).share();
  const auto ended = [running](std::chrono::nanoseconds timeout) {
    return running.wait_for(timeout) == std::future_status::ready;
  };
  const StoppedAtExit stopped_at_exit([cancel] { cancel.ask(); }, ended);
  while (!without_gil([&] { return ended(kSignalPeriod); })) {
    if (callers != nullptr && callers->asked()) cancel.ask();
    if (PyErr_CheckSignals() == 0) continue;
    cancel.ask();
    without_gil([&] { running.wait(); });
    throw nb::python_error();
  }
  running.get();
}

nb::list to_list(const VariableResult& result) {
  nb::list items;
  std::uint64_t unlooked = 0;
  for (std::uint64_t i = 0; i < result.size(); ++i) {
    const std::string_view item = result[i];
    unlooked += item.size();
    if (result.is_utf8()) {
      items.append(nb::str(item.data(), item.size()));
    } else {
      items.append(nb::bytes(item.data(), item.size()));
    }
    if (i % kItemsBetweenSignals != 0 && unlooked < kBytesBetweenSignals) continue;
    unlooked = 0;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return items;
}

nb::tuple read_strings(const Array& array, nb::handle selection, int indexing, std::uint64_t max_bytes,
                       nb::object progress, const Cancel* callers) {
  const Selection wanted = to_selection(selection, static_cast<Indexing>(indexing), array.info().shape);
  VariableReadOptions options;
  options.max_bytes = max_bytes;
  const Raised raised;
  options.progress = to_progress(progress, raised);
  std::optional<Result<VariableResult>> read;
  const auto body = [&] { read.emplace(array.read_variable(wanted, options)); };
  // For a few strings, starting a thread would cost more than the read.
  const ReadCost cost = cost_of(array, wanted);
  if (cost.chunks <= kShortStringChunks && cost.elements <= kItemsBetweenSignals) {
    if (callers != nullptr) options.cancel = *callers;
    without_gil(body);
  } else {
    options.cancel.emplace();  // a separate token, so that a signal does not cancel other reads with the caller's token
    if (callers != nullptr && callers->asked()) options.cancel->ask();
    run_interruptibly(*options.cancel, callers, body);
  }
  raised.raise();
  const VariableResult got = take(std::move(*read));
  count(got.stats);
  return nb::make_tuple(to_list(got), got.stats);
}

// All fields, by name.
#define HEADRACE_STATS(each)                                                                                          \
  each(chunks) each(missing_chunks) each(damaged_chunks) each(kept_chunks) each(kept_encoded_chunks) each(gpu_chunks) \
      each(cpu_chunks) each(skipped_bytes) each(returned_chunks) each(indexed_chunks) each(bad_indices) each(waves)   \
          each(requests) each(objects_opened) each(stored_bytes) each(read_bytes) each(bus_bytes) each(decoded_bytes) \
              each(gpu_decoded_bytes) each(cpu_decoded_bytes) each(direct_bytes) each(straight_bytes)                 \
                  each(engine_bytes) each(buffered_bytes) each(memory_bytes) each(mapped_bytes) each(store_bytes)     \
                      each(cache_bytes) each(packed_bytes) each(cache_hits) each(cache_misses) each(plan_seconds)     \
                          each(open_seconds) each(read_seconds) each(decode_seconds) each(assemble_seconds)           \
                              each(copy_seconds) each(wall_seconds) each(engine) each(path) each(device_note)

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

TensorView view_of(std::byte* first, const DataType& dtype, std::vector<std::uint64_t> shape,
                   std::vector<std::int64_t> strides) {
  std::uint64_t before = 0, bytes = dtype.item_bytes;
  bool wraps = false;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return TensorView({first, std::size_t{0}}, dtype, std::move(shape), std::move(strides));
    std::uint64_t reach = 0;
    if (strides.empty()) {
      wraps = __builtin_mul_overflow(bytes, shape[i], &bytes) || wraps;
      continue;
    }
    const std::int64_t stride = i < strides.size() ? strides[i] : 0;
    const std::uint64_t step = stride < 0 ? -static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
    wraps = __builtin_mul_overflow(shape[i] - 1, step, &reach) || __builtin_add_overflow(bytes, reach, &bytes) || wraps;
    if (stride < 0) before += reach;
  }
  if (wraps) bytes = before = 0;  // the read rejects this
  return TensorView({first - before, static_cast<std::size_t>(bytes)}, dtype, std::move(shape), std::move(strides),
                    static_cast<std::size_t>(before));
}

void count(const Stats& stats) {
  const std::lock_guard lock(g_total_mutex);
  g_total += stats;
}

void bind_arrays(nb::module_& module) {
  bind_stats(module);

  nb::class_<Reading>(module, "Reading", nb::type_slots(g_reading_slots))
      .def("wait", &Reading::wait, "seconds"_a)
      .def("done", &Reading::done, nb::lock_self())
      .def("cancel", &Reading::cancel)
      .def("finish", &Reading::finish, nb::lock_self())
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
      .def("stored_chunks",
           [](const Array& array) {
             const StoredChunks stored = take(without_gil([&] { return array.stored_chunks(); }));
             nb::list indices;
             for (const std::uint64_t index : stored.indices) indices.append(index);
             return nb::make_tuple(stored.count, std::move(indices));
           })
      .def(
          "result_shape",
          [](const Array& array, nb::handle selection, int indexing) {
            const Selection wanted = to_selection(selection, static_cast<Indexing>(indexing), array.info().shape);
            const auto resolved = array.resolve(wanted);
            // Python reports an invalid selection as an IndexError.
            if (!resolved.ok() && resolved.status().code() == Code::kInvalidArgument) {
              throw nb::index_error(resolved.status().message().c_str());
            }
            check(resolved.ok() ? Status() : resolved.status());
            return to_tuple(resolved->shape);
          },
          "selection"_a.none(), "indexing"_a)
      .def(
          "result_dtype",
          [](const Array& array, const std::string& dtype, double scale, double offset, bool fill_as_nan,
             bool damage_as_nan) {
            ReadOptions options;
            options.dtype = dtype;
            options.scale = scale;
            options.offset = offset;
            options.fill_as_nan = fill_as_nan;
            options.damage_as_nan = damage_as_nan;
            return describe(take(result_dtype(array.info().dtype, options)));
          },
          "dtype"_a, "scale"_a, "offset"_a, "fill_as_nan"_a, "damage_as_nan"_a)
      .def(
          "read",
          [](const Array& array, nb::handle selections, int indexing, nb::handle targets, const Device& device,
             std::uintptr_t stream, const std::string& dtype, double scale, double offset, bool fill_as_nan,
             nb::bytes missing, bool damage_as_nan, int placement, bool whole, bool collect_errors, nb::object progress,
             const Cancel* cancel) {
            const Options options(stream, dtype, scale, offset, fill_as_nan, std::move(missing), damage_as_nan,
                                  placement, whole, collect_errors, std::move(progress), cancel);
            return run_parts(array, to_parts(array, selections, indexing, targets, options), device, options);
          },
          "selections"_a, "indexing"_a, "targets"_a, "device"_a, "stream"_a, "dtype"_a, "scale"_a, "offset"_a,
          "fill_as_nan"_a, "missing"_a, "damage_as_nan"_a, "placement"_a, "whole"_a, "collect_errors"_a,
          "progress"_a.none(), "cancel"_a.none(),
          "Reads each selection into its target, (pointer, shape, strides in bytes or None), all of them on `device`.")
      .def(
          "start",
          [](const Array& array, nb::handle selections, int indexing, nb::handle targets, const Device& device,
             std::uintptr_t stream, const std::string& dtype, double scale, double offset, bool fill_as_nan,
             nb::bytes missing, bool damage_as_nan, int placement, bool whole, bool collect_errors, nb::object progress,
             const Cancel* cancel, nb::object kept) {
            const Options options(stream, dtype, scale, offset, fill_as_nan, std::move(missing), damage_as_nan,
                                  placement, whole, collect_errors, std::move(progress), cancel);
            return start_parts(array, to_parts(array, selections, indexing, targets, options), device, options,
                               std::move(kept));
          },
          "selections"_a, "indexing"_a, "targets"_a, "device"_a, "stream"_a, "dtype"_a, "scale"_a, "offset"_a,
          "fill_as_nan"_a, "missing"_a, "damage_as_nan"_a, "placement"_a, "whole"_a, "collect_errors"_a,
          "progress"_a.none(), "cancel"_a.none(), "kept"_a.none(),
          "The same, under way when it returns. `kept` lives as long as the result.")
      .def("read_strings", &read_strings, "selection"_a.none(), "indexing"_a, "max_bytes"_a, "progress"_a.none(),
           "cancel"_a.none(), "(list of str or bytes in C order, Stats) for elements of variable length.");

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

  module.def(
      "open",
      [](const Store& store, const std::string& path, const std::string& lenient, bool consolidated,
         const std::string& index_directory, bool revalidate) {
        return open_node(store, path, open_options(lenient, consolidated, index_directory, revalidate));
      },
      "store"_a, "path"_a, "lenient"_a, "consolidated"_a, "index_directory"_a, "revalidate"_a,
      nb::sig("def open(store: Store, path: str, lenient: str, consolidated: bool, index_directory: str, "
              "revalidate: bool) -> Array | Group"));
}

}  // namespace headrace::python
