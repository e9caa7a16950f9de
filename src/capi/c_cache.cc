// The disk cache of remote stores: inspecting and clearing it.
#include <headrace/disk_cache.h>

#include <array>

#include "c_call.h"

using headrace::Code;
using headrace::Layer;
using headrace::Result;
using headrace::Status;
using namespace headrace::capi;

struct hr_cache_report {
  headrace::DiskCacheReport value;
};

namespace {

constexpr std::array kCacheTotalsEnds = {sizeof(hr_cache_totals)};
constexpr std::array kCacheSegmentEnds = {sizeof(hr_cache_segment)};

}  // namespace

extern "C" {

hr_code hr_cache_inspect(const char* directory, int verify, hr_cache_report** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(directory, "directory"));
    HEADRACE_TRY_ASSIGN(headrace::DiskCacheReport report, headrace::inspect_disk_cache(directory, verify != 0));
    *out = new hr_cache_report{std::move(report)};
    return {};
  });
}

hr_code hr_cache_total(const hr_cache_report* report, hr_cache_totals* out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(report, "report"));
    const headrace::DiskCacheReport& from = report->value;
    hr_cache_totals made = HR_CACHE_TOTALS_INIT;
    made.segments = from.segments.size();
    made.file_bytes = from.file_bytes;
    made.records = from.records;
    made.data_bytes = from.data_bytes;
    made.damaged_records = from.damaged_records;
    made.disk_free_bytes = from.disk_free_bytes;
    made.most_bytes = from.most_bytes;
    made.hits = from.hits;
    made.hit_bytes = from.hit_bytes;
    made.misses = from.misses;
    made.added_records = from.added_records;
    made.added_bytes = from.added_bytes;
    made.dropped_records = from.dropped_records;
    made.in_use = from.in_use ? 1 : 0;
    return give_struct(made, kCacheTotalsEnds, out);
  });
}

hr_code hr_cache_segment_at(const hr_cache_report* report, uint64_t index, hr_cache_segment* out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(report, "report"));
    if (index >= report->value.segments.size()) {
      return {Code::kNotFound, Layer::kApi,
              "the cache has " + std::to_string(report->value.segments.size()) + " segments"};
    }
    const headrace::DiskCacheSegment& from = report->value.segments[static_cast<std::size_t>(index)];
    hr_cache_segment made = HR_CACHE_SEGMENT_INIT;
    made.name = from.name.c_str();
    made.file_bytes = from.file_bytes;
    made.records = from.records;
    made.data_bytes = from.data_bytes;
    made.damaged_records = from.damaged_records;
    made.torn_bytes = from.torn_bytes;
    made.sealed = from.sealed ? 1 : 0;
    made.growing = from.growing ? 1 : 0;
    made.foreign = from.foreign ? 1 : 0;
    return give_struct(made, kCacheSegmentEnds, out);
  });
}

const char* hr_cache_directory(const hr_cache_report* report) {
  return report == nullptr ? nullptr : report->value.directory.c_str();
}

const char* hr_cache_problem(const hr_cache_report* report) {
  return report == nullptr ? nullptr : report->value.problem.c_str();
}

void hr_cache_free(hr_cache_report* report) { delete report; }

hr_code hr_cache_clear(const char* directory, uint64_t* freed_bytes, hr_error** error) {
  if (freed_bytes != nullptr) *freed_bytes = 0;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(directory, "directory"));
    HEADRACE_TRY_ASSIGN(const std::uint64_t freed, headrace::clear_disk_cache(directory));
    if (freed_bytes != nullptr) *freed_bytes = freed;
    return {};
  });
}

}  // extern "C"
