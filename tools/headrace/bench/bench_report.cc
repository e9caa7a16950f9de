#include "bench_report.h"

#include <algorithm>

#include "bench_text.h"
#include "cli_common.h"

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
  table.rows.push_back({"over the bus", cli::human_bytes(stats.bus_bytes)});
  return table;
}

}  // namespace

cli::ReportSummary report_summary(const BenchOutcome& outcome) {
  constexpr std::size_t kMostJobs = 32;  // a page to look at, not the list of a thousand threads
  cli::ReportSummary summary;
  summary.title = "headrace bench";
  const auto& results = outcome.results.size() > kMostJobs ? outcome.groups : outcome.results;
  for (std::size_t i = 0; i < std::min(results.size(), kMostJobs); ++i) {
    cli::ReportTable table{job_title(results[i]), {}};
    for (const TextRow& row : job_rows(results[i])) table.rows.push_back({row.name, row.text});
    summary.facts.push_back(std::move(table));
    if (!results[i].array) {
      summary.facts.push_back(bytes_table(results[i]));
      continue;
    }
    for (cli::ReportTable& part : cli::stats_tables(*results[i].array)) summary.facts.push_back(std::move(part));
  }
  return summary;
}

}  // namespace headrace::bench
