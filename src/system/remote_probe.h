// What a URL's service offers to reads: the parts of a RemoteReport.
//
// Threads: pure, but for probe_remote() and measure_ranges(), which ask the service and block.
#pragma once

#include <headrace/open_options.h>
#include <headrace/remote_report.h>

#include <span>
#include <string>
#include <vector>

#include "http/service_probe.h"

namespace headrace::system {

struct RemoteProbeOptions {
  bool measure = true;
  std::span<const StorageOption> storage;
};
RemoteReport probe_remote(const std::string& url, const RemoteProbeOptions& options);

// What keeps everything from being read, of an answer that no read could use.
RemoteProblem problem_of(const http::ServiceAnswer& answer);
// Sets `verdict` and `what_to_do` from all the rest.
void judge_remote(RemoteReport& report);

// Names of objects, one of each array, that documents of Zarr's speak of: first chunks, whether they are there or not.
// `document`: of "zarr.json", ".zarray" or ".zmetadata", whatever it holds.
std::vector<std::string> first_chunks(std::string_view name, std::string_view document);

// Object and size in bytes.
struct RemoteObject {
  std::string key;
  std::uint64_t bytes = 0;
};
struct RangeRates {
  double one = 0, all = 0;  // bytes a second
  std::uint64_t bytes = 0, range_bytes = 0;
  std::uint32_t connections = 0;
  double cpu_seconds_per_gigabyte = 0, cores = 0;  // over all connections
  bool throttled = false;
};
// Ranges of these objects, which are not empty, read by a store of that URL: one connection first, then all of them.
Result<RangeRates> measure_ranges(const std::string& url, std::span<const StorageOption> storage,
                                  std::span<const RemoteObject> objects, std::uint32_t connections);
// What bounds such rates, and its sentence.
void find_bound(const RangeRates& rates, RemoteReport& report);

}  // namespace headrace::system
