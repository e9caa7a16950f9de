// Bindings of plain files: one queue per thread, with one blocking request at a time.
#include <headrace/file.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "bind.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

// Tells a transfer on another thread to stop.
struct Stop {
  std::atomic<bool> asked = false;
};

// Transfers are split into pieces, with a check for signals after each: the target duration of a piece, and the size of
// the first one.
constexpr auto kPieceTime = std::chrono::milliseconds(50);
constexpr std::size_t kFirstPieceBytes = std::size_t{16} << 20;
constexpr std::size_t kPieceUnitBytes = std::size_t{4} << 20;  // keeps direct I/O aligned

std::size_t next_piece(std::size_t piece, std::chrono::steady_clock::duration took) {
  const double grown = static_cast<double>(piece) * (std::chrono::duration<double>(kPieceTime) / took);
  const double units = std::clamp(grown / kPieceUnitBytes, 1.0, 1024.0);
  return static_cast<std::size_t>(units) * kPieceUnitBytes;
}

// Blocks until the request completes. The queue belongs to this thread, so nothing else is in flight on it.
void transfer_piece(FileQueue& queue, const File& file, bool write, const FileRange& range) {
  FileCompletion completion;
  Status status;
  {
    const ReleasedGil released;
    status = write ? queue.write(file, {&range, 1}, 0) : queue.read(file, {&range, 1}, 0);
    if (status.ok()) {
      while (queue.wait({&completion, 1}) == 0) {
      }
    }
  }
  check(status);
  check(completion.status);
}

// Returns the bytes transferred: fewer than requested only if `stop` was set.
std::size_t transfer(FileQueue& queue, const File& file, bool write, std::uint64_t offset, std::uintptr_t memory,
                     std::size_t bytes, const Stop& stop) {
  std::size_t done = 0;
  std::size_t piece = kFirstPieceBytes;
  while (done < bytes && !stop.asked) {
    const FileRange range{offset + done, reinterpret_cast<std::byte*>(memory) + done, std::min(piece, bytes - done)};
    const auto begin = std::chrono::steady_clock::now();
    transfer_piece(queue, file, write, range);
    piece = next_piece(range.bytes, std::chrono::steady_clock::now() - begin);
    done += range.bytes;
    if (done < bytes && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return done;
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

  nb::class_<Stop>(module, "Stop").def(nb::init<>()).def("ask", [](Stop& stop) { stop.asked = true; });

  nb::class_<FileStats>(module, "FileStats")
      .def_ro("requests", &FileStats::requests)
      .def_ro("system_calls", &FileStats::system_calls)
      .def_ro("direct_bytes", &FileStats::direct_bytes)
      .def_ro("straight_bytes", &FileStats::straight_bytes)
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
          [](FileQueue& queue, const File& file, std::uint64_t offset, std::uintptr_t memory, std::size_t bytes,
             const Stop& stop) { return transfer(queue, file, false, offset, memory, bytes, stop); },
          "file"_a, "offset"_a, "memory"_a, "bytes"_a, "stop"_a)
      .def(
          "write",
          [](FileQueue& queue, const File& file, std::uint64_t offset, std::uintptr_t memory, std::size_t bytes,
             const Stop& stop) { return transfer(queue, file, true, offset, memory, bytes, stop); },
          "file"_a, "offset"_a, "memory"_a, "bytes"_a, "stop"_a)
      .def("stats", &FileQueue::stats);
}

}  // namespace headrace::python
