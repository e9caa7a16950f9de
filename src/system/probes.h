// The parts of a SystemReport.
#pragma once

#include <headrace/system.h>

#include <chrono>
#include <string>
#include <vector>

namespace headrace::system {

// `name` "auto": the host and every GPU, or why there is none; otherwise that device. kInvalidArgument: no such kind.
Result<std::vector<DeviceReport>> probe_devices(const std::string& name, bool measure);

struct PathProbeOptions {
  bool measure = true;
  std::chrono::milliseconds limit{300};  // for each of three measurements
};
PathReport probe_path(const std::string& path, const PathProbeOptions& options);

// The path that reads of `path` into `device` will take, and what would make it faster. Uses only the reports.
PathAdvice advise(const PathReport& path, const DeviceReport& device, const SystemReport& report);

// "3.1 GB/s", "42 MB/s".
std::string rate_text(double bytes_per_second);

}  // namespace headrace::system
