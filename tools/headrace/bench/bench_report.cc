#include "bench_report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "bench_text.h"
#include "cli_common.h"
#include "remote_options.h"

namespace headrace::bench {
namespace {

cli::ReportTable bytes_table(const JobResult& result) {
  const FileStats& stats = result.stats;
  const std::uint64_t all = stats.direct_bytes + stats.buffered_bytes + stats.mapped_bytes +
                            stats.written_direct_bytes + stats.written_buffered_bytes;
  cli::ReportTable table{"Bytes by path: " + result.options.name, {}};
  for (const auto& [name, bytes] : {std::pair<const char*, std::uint64_t>{"read, direct", stats.direct_bytes},
                                    {"read, buffered", stats.buffered_bytes},
                                    {"read, mapped", stats.mapped_bytes},
                                    {"written, direct", stats.written_direct_bytes},
                                    {"written, buffered", stats.written_buffered_bytes}}) {
    const double share = all > 0 ? static_cast<double>(bytes) / static_cast<double>(all) : 0;
    if (bytes > 0) table.rows.push_back({name, cli::human_bytes(bytes), share});
  }
  if (stats.straight_bytes > 0) {
    table.rows.push_back({"of the direct, without a stop in host memory", cli::human_bytes(stats.straight_bytes)});
  }
  if (stats.bus_bytes > 0) table.rows.push_back({"over the bus", cli::human_bytes(stats.bus_bytes)});
  return table;
}

// The options of a job.
cli::ReportTable job_table(const JobResult& result) {
  const JobOptions& job = result.options;
  cli::ReportTable table{"Job: " + job.name, {}};
  const auto row = [&table](const char* name, std::string text) { table.rows.push_back({name, std::move(text)}); };
  if (!job.zarr.empty() || !job.decode.empty()) {
    row(job.zarr.empty() ? "decode" : "zarr", cli::shown_urls(job.zarr.empty() ? job.decode : job.zarr));
    row("select", job.select.empty() ? "all" : job.select);
  } else {
    row("file", job.paths.empty() ? result.file : "those named in " + job.paths);
    row("rw", direction_text(job));
    if (job.paths.empty()) row("bs", block_text(job));
  }
  row("iodepth", cli::human_count(job.depth));
  row("numjobs", cli::human_count(job.threads));
  row("device", result.device + (result.device_description.empty() ? "" : ", " + result.device_description));
  row("engine", job.engine);
  row("measured for", cli::human_seconds(result.seconds));
  std::string given;
  for (const GivenOption& option : job.given) {
    given +=
        (given.empty() ? "" : " ") + option.key + (option.value.empty() ? "" : "=" + cli::shown_urls(option.value));
  }
  if (!given.empty()) row("options given", given);
  return table;
}

// Time from request to completion, in buckets that double.
cli::ReportTable latency_table(const JobResult& result, const char* direction, const LatencyHistogram& latency) {
  cli::ReportTable table{"Latency of " + std::string(direction) + ": " + result.options.name, {}};
  std::map<unsigned, std::uint64_t> steps;  // by the exponent of the bucket's upper bound
  latency.for_each_bucket([&](std::uint64_t nanoseconds, std::uint64_t samples) {
    steps[static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(nanoseconds, 1)))] += samples;
  });
  const auto text = [](unsigned power) { return cli::human_seconds(std::ldexp(1e-9, static_cast<int>(power))); };
  for (unsigned power = steps.empty() ? 1 : steps.begin()->first; !steps.empty() && power <= steps.rbegin()->first;
       ++power) {
    const auto found = steps.find(power);
    const std::uint64_t samples = found == steps.end() ? 0 : found->second;
    table.rows.push_back({text(power - 1) + " to " + text(power), cli::human_count(samples),
                          static_cast<double>(samples) / static_cast<double>(latency.count())});
  }
  for (const double percent : {50.0, 99.0, 99.9}) {
    char name[32];
    std::snprintf(name, sizeof name, "%g %% took at most", percent);
    table.rows.push_back({name, cli::human_seconds(static_cast<double>(latency.percentile(percent)) * 1e-9)});
  }
  return table;
}

}  // namespace

cli::ReportSummary report_summary(const BenchOutcome& outcome) {
  constexpr std::size_t kMaxJobs = 32;  // keeps the page readable with a thousand threads
  cli::ReportSummary summary;
  summary.title = "headrace bench";
  const auto& results = outcome.results.size() > kMaxJobs ? outcome.groups : outcome.results;
  for (std::size_t i = 0; i < std::min(results.size(), kMaxJobs); ++i) {
    cli::ReportTable table{job_title(results[i]), {}};
    for (const TextRow& row : job_rows(results[i])) table.rows.push_back({row.name, row.text});
    summary.facts.push_back(std::move(table));
    summary.facts.push_back(job_table(results[i]));
    for (const auto& [name, direction] :
         {std::pair{"reads", &results[i].read}, std::pair{"writes", &results[i].write}}) {
      if (direction->total.count() > 0) summary.facts.push_back(latency_table(results[i], name, direction->total));
    }
    if (!results[i].array) {
      summary.facts.push_back(bytes_table(results[i]));
      continue;
    }
    for (cli::ReportTable& part :
         cli::stats_tables(*results[i].array, results[i].device == "host" ? "" : results[i].device))
      summary.facts.push_back(std::move(part));
  }
  return summary;
}

}  // namespace headrace::bench
