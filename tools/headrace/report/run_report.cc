#include "report/run_report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "cli_common.h"
#include "report/chrome_trace.h"
#include "report/html_report.h"

namespace headrace::cli {
namespace {

Status finish(OutputFile& file, const std::string& text) {
  HEADRACE_TRY(file.write(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

}  // namespace

Status write_text_file(const std::string& path, const std::string& text) {
  OutputFile file;
  HEADRACE_TRY(file.open(path));
  return finish(file, text);
}

void add_report_options(CLI::App& verb, ReportOptions& options) {
  // Standard output belongs to the verb.
  const auto is_file = [](const std::string& text) -> std::string {
    return text.empty() || is_standard_output(text) ? "name a file" : "";
  };
  verb.add_option("--report", options.html, "write a page that shows the timeline and the bottleneck")
      ->check(is_file)
      ->type_name("FILE.html");
  verb.add_option("--trace", options.trace, "write the timeline for ui.perfetto.dev")
      ->check(is_file)
      ->type_name("FILE.json");
}

std::vector<ReportTable> stats_tables(const Stats& stats) {
  const auto bytes = [](const char* name, std::uint64_t count, std::uint64_t most) {
    const double share = most > 0 ? static_cast<double>(count) / static_cast<double>(most) : 0;
    return ReportRow{name, human_bytes(count), share};
  };
  const std::uint64_t most = std::max({stats.stored_bytes, stats.read_bytes, stats.bus_bytes, stats.decoded_bytes});
  const std::uint64_t read = stats.read_bytes;
  return {{"Bytes by kind",
           {bytes("stored: encoded bytes used", stats.stored_bytes, most),
            bytes("read: with gaps and alignment", stats.read_bytes, most),
            bytes("over the bus", stats.bus_bytes, most), bytes("decoded: delivered", stats.decoded_bytes, most),
            bytes("decoded on the GPU", stats.gpu_decoded_bytes, most),
            bytes("decoded by the CPU", stats.cpu_decoded_bytes, most)}},
          {"Bytes read by path",
           {bytes("direct (O_DIRECT)", stats.direct_bytes, read), bytes("engine, buffered", stats.engine_bytes, read),
            bytes("page cache", stats.buffered_bytes, read), bytes("memory", stats.memory_bytes, read),
            bytes("mapped (page cache, by the device)", stats.mapped_bytes, read)}},
          {"Work",
           {{"chunks", human_count(stats.chunks)},
            {"missing chunks, filled", human_count(stats.missing_chunks)},
            {"chunks decoded on the GPU", human_count(stats.gpu_chunks)},
            {"of them with a decode index", human_count(stats.indexed_chunks)},
            {"chunks decoded by the CPU", human_count(stats.cpu_chunks)},
            {"of them handed back by the GPU", human_count(stats.returned_chunks)},
            {"waves", human_count(stats.waves)},
            {"requests", human_count(stats.requests)},
            {"objects opened", human_count(stats.objects_opened)},
            {"engine used", stats.engine},
            {"path", stats.path}}},
          {"Rates over the wall time",
           {{"wall time of the read", human_seconds(stats.wall_seconds)},
            {"stored bytes", human_rate(stats.stored_bytes, stats.wall_seconds)},
            {"bytes over the bus", human_rate(stats.bus_bytes, stats.wall_seconds)},
            {"decoded bytes", human_rate(stats.decoded_bytes, stats.wall_seconds)}}}};
}

RunReport::~RunReport() { end(); }

Status RunReport::begin(const ReportOptions& options) {
  options_ = options;
  if (!options_.html.empty()) HEADRACE_TRY(html_.open(options_.html));
  if (!options_.trace.empty()) HEADRACE_TRY(trace_.open(options_.trace));
  if (!options_.wanted()) return {};
  HEADRACE_TRY(trace::start());
  recording_ = true;
  return {};
}

void RunReport::end() noexcept {
  if (recording_) trace::stop();
}

Status RunReport::write(const ReportSummary& summary) {
  if (!recording_) return {};
  recording_ = false;
  HEADRACE_TRY_ASSIGN(const trace::Trace recorded, trace::take());
  if (!options_.html.empty()) {
    HEADRACE_TRY_ASSIGN(const std::string page, html_report(recorded, summary));
    HEADRACE_TRY(finish(html_, page));
  }
  if (options_.trace.empty()) return {};
  HEADRACE_TRY_ASSIGN(const std::string timeline, chrome_trace(recorded));
  return finish(trace_, timeline);
}

}  // namespace headrace::cli
