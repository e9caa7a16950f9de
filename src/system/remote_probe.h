// What a URL's service offers to reads: the steps that fill in a RemoteReport.
//
// Threads: pure functions, except probe_remote() and measure_ranges(), which send requests and block.
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

// The problem behind an answer that prevents all reads.
RemoteProblem problem_of(const http::ServiceAnswer& answer);
// Sets `verdict` and `what_to_do` from the other fields.
void judge_remote(RemoteReport& report);

// Keys of first chunks, one per array that a Zarr document describes, whether or not they exist. `document` is the
// untrusted text of "zarr.json", ".zarray" or ".zmetadata".
std::vector<std::string> first_chunks(std::string_view name, std::string_view document);

// Object and size in bytes.
struct RemoteObject {
  std::string key;
  std::uint64_t bytes = 0;
};
struct RangeRates {
  double one = 0, all = 0;  // bytes per second
  std::uint64_t bytes = 0, range_bytes = 0;
  std::uint32_t connections = 0;
  double cpu_seconds_per_gigabyte = 0, cores = 0;  // over all connections
  bool throttled = false;
};
// Reads ranges of these non-empty objects through a store of that URL: over one connection, then over all of them.
Result<RangeRates> measure_ranges(const std::string& url, std::span<const StorageOption> storage,
                                  std::span<const RemoteObject> objects, std::uint32_t connections);
// Determines what limits such rates, with a sentence.
void find_bound(const RangeRates& rates, RemoteReport& report);

}  // namespace headrace::system
