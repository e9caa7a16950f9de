// Job files: text gives jobs or kInvalidArgument that names a line, and what a job was given makes the same job again.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz_check.h"
#include "tools/headrace/bench/job_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  const auto jobs = bench::parse_job_file({reinterpret_cast<const char*>(data), size}, "input");
  if (!jobs.ok()) {
    FUZZ_CHECK(jobs.status().code() == Code::kInvalidArgument);
    FUZZ_CHECK(jobs.status().key().rfind("input line ", 0) == 0);
    return 0;
  }
  FUZZ_CHECK(!jobs->empty());
  for (const bench::JobOptions& job : *jobs) {
    FUZZ_CHECK(job.depth > 0 && job.list > 0 && job.threads > 0 && job.loops > 0 && job.block_bytes > 0);
    FUZZ_CHECK(job.runtime_seconds >= 0 && job.runtime_seconds <= 1e9 && job.size_percent <= 100);
    const Status fits = bench::check_options(job);
    FUZZ_CHECK(fits.ok() || fits.code() == Code::kInvalidArgument);
    std::vector<std::pair<std::string, std::string>> arguments;
    for (const bench::GivenOption& option : job.given) arguments.emplace_back(option.key, option.value);
    std::stable_partition(arguments.begin(), arguments.end(), [](const auto& a) { return a.first == "name"; });
    const auto again = bench::jobs_from_arguments(arguments, {});
    FUZZ_CHECK(again.ok() && again->size() == 1);
    FUZZ_CHECK(again->front().name == job.name && again->front().block_bytes == job.block_bytes);
    FUZZ_CHECK(again->front().filename == job.filename && again->front().percentiles == job.percentiles);
    FUZZ_CHECK(again->front().seed == job.seed && again->front().runtime_seconds == job.runtime_seconds);
  }
  return 0;
}
