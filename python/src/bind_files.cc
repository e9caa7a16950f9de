// Plain files to and from memory: one queue a thread, one blocking request at a time on it.
#include <headrace/file.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>

#include "bind.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

// Blocks until the request has completed. The queue is this thread's, so nothing else is pending on it.
std::uint64_t transfer(FileQueue& queue, const File& file, bool write, std::uint64_t offset, std::uintptr_t memory,
                       std::size_t bytes) {
  const FileRange range{offset, reinterpret_cast<std::byte*>(memory), bytes};
  FileCompletion completion;
  Status status;
  {
    nb::gil_scoped_release release;
    status = write ? queue.write(file, {&range, 1}, 0) : queue.read(file, {&range, 1}, 0);
    if (status.ok()) {
      while (queue.wait({&completion, 1}) == 0) {
      }
    }
  }
  check(status);
  check(completion.status);
  return completion.bytes;
}

}  // namespace

void bind_files(nb::module_& module) {
  nb::class_<File>(module, "File")
      .def_static(
          "open",
          [](const std::string& path, bool write, bool create, bool truncate) {
            return take(without_gil(
                [&] { return File::open(path, {.write = write, .create = create, .truncate = truncate}); }));
          },
          "path"_a, "write"_a, "create"_a, "truncate"_a)
      .def_prop_ro("path", [](const File& file) { return file.path(); })
      .def("size_bytes", [](const File& file) { return take(file.size_bytes()); })
      .def("sync", [](const File& file) { check(without_gil([&] { return file.sync(); })); });

  nb::class_<FileStats>(module, "FileStats")
      .def_ro("requests", &FileStats::requests)
      .def_ro("system_calls", &FileStats::system_calls)
      .def_ro("direct_bytes", &FileStats::direct_bytes)
      .def_ro("buffered_bytes", &FileStats::buffered_bytes)
      .def_ro("mapped_bytes", &FileStats::mapped_bytes)
      .def_ro("written_direct_bytes", &FileStats::written_direct_bytes)
      .def_ro("written_buffered_bytes", &FileStats::written_buffered_bytes)
      .def_ro("bus_bytes", &FileStats::bus_bytes)
      .def_ro("engine", &FileStats::engine)
      .def_ro("notes", &FileStats::notes);

  nb::class_<FileQueue>(module, "FileQueue")
      .def_static(
          "create",
          [](const Context& context, const Device& device, const std::string& path, std::uintptr_t native_stream) {
            FileQueueOptions options;
            options.path = take(parse_path_name(path));
            options.native_stream = reinterpret_cast<void*>(native_stream);
            auto made = without_gil([&] { return FileQueue::create(context, device, options); });
            return std::make_unique<FileQueue>(take(std::move(made)));
          },
          "context"_a, "device"_a, "path"_a, "native_stream"_a)
      .def(
          "read",
          [](FileQueue& queue, const File& file, std::uint64_t offset, std::uintptr_t memory, std::size_t bytes) {
            return transfer(queue, file, false, offset, memory, bytes);
          },
          "file"_a, "offset"_a, "memory"_a, "bytes"_a)
      .def(
          "write",
          [](FileQueue& queue, const File& file, std::uint64_t offset, std::uintptr_t memory, std::size_t bytes) {
            return transfer(queue, file, true, offset, memory, bytes);
          },
          "file"_a, "offset"_a, "memory"_a, "bytes"_a)
      .def("stats", &FileQueue::stats);
}

}  // namespace headrace::python
