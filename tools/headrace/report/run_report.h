// RunReport: --report and --trace of a verb. Records the run, and writes an HTML page and a trace for Perfetto.
//
//   ReportOptions options;  add_report_options(verb, options);
//   RunReport report;
//   report.begin(options);  ...the run...  report.end();  report.write(summary);
//
// The trace's wall time is the time from begin() to end(), or the duration passed to end().
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
  std::string html, trace;  // file names; empty: not requested
  bool wanted() const { return !html.empty() || !trace.empty(); }
};
void add_report_options(CLI::App& verb, ReportOptions& options);

struct ReportRow {
  std::string name, value;
  double share = -1;  // 0 to 1: drawn as a bar; negative: no bar
};
struct ReportTable {
  std::string heading;
  std::vector<ReportRow> rows;
};
// The page's content besides the trace. Texts may be untrusted.
struct ReportSummary {
  std::string title;               // what was run
  std::vector<ReportTable> facts;  // the first is shown below the title
  double run_seconds = 0;          // set by RunReport
};
// Bytes by kind and by path, and counts of work. `decoder`: name of the device if it has decoders; else empty.
std::vector<ReportTable> stats_tables(const Stats& stats, const std::string& decoder = {});

// Label of the run time that includes processing the data, such as writing or hashing it.
inline constexpr const char* kWholeRun = "whole run, including output and hashing (-o, --sha256)";

// Creates or replaces the file; a regular file is written atomically.
Status write_text_file(const std::string& path, const std::string& text);

class RunReport {
 public:
  RunReport() = default;
  RunReport(const RunReport&) = delete;
  RunReport& operator=(const RunReport&) = delete;
  ~RunReport();

  // Opens the files, so that errors are reported before the run, and starts recording. Does nothing if neither file was
  // requested.
  Status begin(const ReportOptions& options);
  void end() noexcept;  // end of the period that the report shows
  void end(double seconds) noexcept;
  // Records that this thread wrote output from `begin_ns` until now.
  void wrote(std::uint64_t begin_ns, std::uint64_t bytes);
  static std::uint64_t now_ns() noexcept;
  // Writes the requested files. Call it after end().
  Status write(ReportSummary summary);

 private:
  ReportOptions options_;
  OutputFile html_, trace_;
  bool recording_ = false;
  std::uint64_t begin_ns_ = 0, end_ns_ = 0;
  std::vector<trace::SpanRecord> writes_;
};

}  // namespace headrace::cli
