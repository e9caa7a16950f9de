// Bindings of the disk cache of remote stores.
#include <headrace/disk_cache.h>
#include <nanobind/nanobind.h>

#include <string>

#include "bind.h"
#include "errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

nb::dict segment_fields(const DiskCacheSegment& segment) {
  nb::dict out;
  out["name"] = segment.name;
  out["file_bytes"] = segment.file_bytes;
  out["records"] = segment.records;
  out["data_bytes"] = segment.data_bytes;
  out["damaged_records"] = segment.damaged_records;
  out["torn_bytes"] = segment.torn_bytes;
  out["sealed"] = segment.sealed;
  out["growing"] = segment.growing;
  out["foreign"] = segment.foreign;
  return out;
}

// Returns the report's fields by their C++ names; `segments` is a list of such dicts.
nb::dict inspect(const std::string& directory, bool verify) {
  const DiskCacheReport report = take(without_gil([&] { return inspect_disk_cache(directory, verify); }));
  nb::list segments;
  for (const DiskCacheSegment& segment : report.segments) segments.append(segment_fields(segment));
  nb::dict out;
  out["directory"] = report.directory;
  out["segments"] = segments;
  out["file_bytes"] = report.file_bytes;
  out["records"] = report.records;
  out["data_bytes"] = report.data_bytes;
  out["damaged_records"] = report.damaged_records;
  out["disk_free_bytes"] = report.disk_free_bytes;
  out["in_use"] = report.in_use;
  out["most_bytes"] = report.most_bytes;
  out["hits"] = report.hits;
  out["hit_bytes"] = report.hit_bytes;
  out["misses"] = report.misses;
  out["added_records"] = report.added_records;
  out["added_bytes"] = report.added_bytes;
  out["dropped_records"] = report.dropped_records;
  out["problem"] = report.problem;
  return out;
}

}  // namespace

void bind_cache(nb::module_& module) {
  module.def("inspect_disk_cache", &inspect, "directory"_a, "verify"_a);
  module.def(
      "clear_disk_cache",
      [](const std::string& directory) { return take(without_gil([&] { return clear_disk_cache(directory); })); },
      "directory"_a);
}

}  // namespace headrace::python
