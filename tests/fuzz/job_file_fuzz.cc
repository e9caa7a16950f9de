// Job files: text gives jobs, or kInvalidArgument that names a line. The options of a parsed job give the same job
// again.
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
    FUZZ_CHECK(job.depth > 0 && job.list > 0 && job.threads > 0 && job.loops > 0 && job.smallest_block() > 0);
    FUZZ_CHECK(job.runtime_seconds >= 0 && job.runtime_seconds <= 1e9 && job.size_percent <= 100);
    FUZZ_CHECK(job.smallest_block() <= job.largest_block() && job.read_percent <= 100 && (job.read || job.write));
    FUZZ_CHECK(job.files > 0 && job.think_blocks > 0 && job.sequential_run > 0 && job.compress_chunk_bytes > 0);
    const Status fits = bench::check_options(job);
    FUZZ_CHECK(fits.ok() || fits.code() == Code::kInvalidArgument);
    std::vector<std::pair<std::string, std::string>> arguments;
    for (const bench::GivenOption& option : job.given) arguments.emplace_back(option.key, option.value);
    std::stable_partition(arguments.begin(), arguments.end(), [](const auto& a) { return a.first == "name"; });
    const auto again = bench::jobs_from_arguments(arguments, {});
    FUZZ_CHECK(again.ok() && again->size() == 1);
    FUZZ_CHECK(again->front().name == job.name && again->front().sizes[0] == job.sizes[0] &&
               again->front().sizes[1] == job.sizes[1]);
    FUZZ_CHECK(again->front().filename == job.filename && again->front().percentiles == job.percentiles);
    FUZZ_CHECK(again->front().notes.size() == job.notes.size() && again->front().distribution == job.distribution);
    FUZZ_CHECK(again->front().seed == job.seed && again->front().runtime_seconds == job.runtime_seconds);
  }
  return 0;
}
