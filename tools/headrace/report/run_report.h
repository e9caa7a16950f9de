// RunReport: --report and --trace of a verb: records the run, and writes a page to look at and a trace for Perfetto.
//
//   ReportOptions options;  add_report_options(verb, options);
//   RunReport report;
//   report.begin(options);  ...the run...  report.end();  report.write(summary);
//
// The trace's wall time is that of the run: from begin() to end(), or as long as end() is told it was.
#pragma once

#include <headrace/stats.h>
#include <headrace/status.h>
#include <headrace/trace.h>

#include <cstdint>
#include <string>
#include <vector>

#include "output_file.h"

namespace CLI {
class App;
}

namespace headrace::cli {

struct ReportOptions {
  std::string html, trace;  // file names; empty: not wanted
  bool wanted() const { return !html.empty() || !trace.empty(); }
};
void add_report_options(CLI::App& verb, ReportOptions& options);

struct ReportRow {
  std::string name, value;
  double share = -1;  // 0 to 1: drawn as a bar; below 0: no bar
};
struct ReportTable {
  std::string heading;
  std::vector<ReportRow> rows;
};
// What a page says besides the trace. No text needs to be trusted.
struct ReportSummary {
  std::string title;               // what ran
  std::vector<ReportTable> facts;  // the first is shown under the title
  double run_seconds = 0;          // RunReport's own
};
// Bytes by kind and by path, and counts of work. `decoder`: what the device is called that has decoders of its own;
// empty: there is none.
std::vector<ReportTable> stats_tables(const Stats& stats, const std::string& decoder = {});

// A row of the rates, where more was made of what was read than to have it.
inline constexpr const char* kWholeRun = "whole run, with what was made of it (-o, --sha256)";

// Replaces or makes the file; a regular one is complete or not there.
Status write_text_file(const std::string& path, const std::string& text);

class RunReport {
 public:
  RunReport() = default;
  RunReport(const RunReport&) = delete;
  RunReport& operator=(const RunReport&) = delete;
  ~RunReport();

  // Opens the files, so that a run is not made in vain, and starts to record. Nothing where neither file is wanted.
  Status begin(const ReportOptions& options);
  void end() noexcept;  // of what is to be seen
  void end(double seconds) noexcept;
  // This thread has written output since then. Seen in the trace.
  void wrote(std::uint64_t begin_ns, std::uint64_t bytes);
  static std::uint64_t now_ns() noexcept;
  // Writes the files that were asked for; after end().
  Status write(ReportSummary summary);

 private:
  ReportOptions options_;
  OutputFile html_, trace_;
  bool recording_ = false;
  std::uint64_t begin_ns_ = 0, end_ns_ = 0;
  std::vector<trace::SpanRecord> writes_;
};

}  // namespace headrace::cli
