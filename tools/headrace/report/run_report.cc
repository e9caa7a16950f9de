#include "report/run_report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "cli_common.h"
#include "report/chrome_trace.h"
#include "report/html_report.h"
#include "report/run_facts.h"

namespace headrace::cli {
namespace {

Status finish(OutputFile& file, const std::string& text) {
  HEADRACE_TRY(file.write(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

// Limits the trace to the run. The main thread appears by its writes, and by an event at the start and end of the run,
// which define the wall time. Waits of idle threads after the end belong to no run.
void cut_to_run(trace::Trace& trace, std::uint64_t begin_ns, std::uint64_t end_ns,
                std::vector<trace::SpanRecord> writes) {
  std::erase_if(trace.events, [&](trace::SpanRecord& event) {
    if (event.stage != trace::Stage::kWait) return false;
    event.start_ns = std::max(event.start_ns, begin_ns);
    event.end_ns = std::min(event.end_ns, end_ns);
    return event.end_ns <= event.start_ns;
  });
  const auto track = static_cast<std::uint32_t>(trace.tracks.size());
  trace.tracks.push_back({trace::TrackKind::kThread, "run"});
  for (const std::uint64_t at : {begin_ns, end_ns}) {
    trace.events.push_back({trace::Stage::kWait, trace::Stage::kWait, track, 0, at, at, 0});
  }
  for (trace::SpanRecord& event : writes) {
    event.track = track;
    trace.events.push_back(event);
  }
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const trace::SpanRecord& a, const trace::SpanRecord& b) { return a.start_ns < b.start_ns; });
}

}  // namespace

Status write_text_file(const std::string& path, const std::string& text) {
  OutputFile file;
  HEADRACE_TRY(file.open(path));
  return finish(file, text);
}

void add_report_options(CLI::App& verb, ReportOptions& options) {
  // Standard output is reserved for the verb.
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

std::vector<ReportTable> stats_tables(const Stats& stats, const std::string& decoder) {
  const auto bytes = [](std::string name, std::uint64_t count, std::uint64_t most) {
    const double share = most > 0 ? static_cast<double>(count) / static_cast<double>(most) : 0;
    return ReportRow{std::move(name), human_bytes(count), share};
  };
  const std::uint64_t most = std::max({stats.stored_bytes, stats.read_bytes, stats.bus_bytes, stats.decoded_bytes});
  const std::uint64_t read = stats.read_bytes;
  std::vector<ReportRow> kinds = {bytes("stored: encoded bytes used", stats.stored_bytes, most),
                                  bytes("read: with gaps, alignment and shard indexes", read, most)};
  std::vector<ReportRow> work = {{"chunks", human_count(stats.chunks)},
                                 {"missing chunks, filled", human_count(stats.missing_chunks)}};
  if (!decoder.empty()) kinds.push_back(bytes("over the bus", stats.bus_bytes, most));
  kinds.push_back(bytes("decoded: delivered", stats.decoded_bytes, most));
  if (!decoder.empty()) {
    kinds.push_back(bytes("of these decoded on " + decoder, stats.gpu_decoded_bytes, most));
    work.push_back({"chunks decoded on " + decoder, human_count(stats.gpu_chunks)});
    work.push_back({"of them with a decode index", human_count(stats.indexed_chunks)});
  }
  kinds.push_back(bytes("of these decoded by the CPU", stats.cpu_decoded_bytes, most));
  kinds.push_back(bytes("of these not to decode: stored as they are, or filled", undecoded_bytes(stats), most));
  work.push_back({"chunks decoded by the CPU", human_count(stats.cpu_chunks)});
  if (!decoder.empty()) work.push_back({"of them handed back by " + decoder, human_count(stats.returned_chunks)});
  work.push_back({"chunks stored as they are", human_count(stats.chunks - stats.gpu_chunks - stats.cpu_chunks)});
  work.push_back({"waves", human_count(stats.waves)});
  work.push_back({"requests", human_count(stats.requests)});
  work.push_back({"objects opened", human_count(stats.objects_opened)});
  work.push_back({"engine used", stats.engine});
  work.push_back({"path", stats.path});
  std::vector<ReportRow> rates = {{"wall time of the read", human_seconds(stats.wall_seconds)},
                                  {"stored bytes", human_rate(stats.stored_bytes, stats.wall_seconds)}};
  if (!decoder.empty()) rates.push_back({"bytes over the bus", human_rate(stats.bus_bytes, stats.wall_seconds)});
  rates.push_back({"decoded bytes", human_rate(stats.decoded_bytes, stats.wall_seconds)});
  return {{"Bytes by kind", std::move(kinds)},
          {"Bytes read by path",
           {bytes("direct (O_DIRECT)", stats.direct_bytes, read),
            bytes("of these straight into device memory", stats.straight_bytes, read),
            bytes("engine, buffered", stats.engine_bytes, read), bytes("page cache", stats.buffered_bytes, read),
            bytes("memory", stats.memory_bytes, read),
            bytes("mapped (page cache, by the device)", stats.mapped_bytes, read),
            bytes("unpacked (ZIP members)", stats.packed_bytes, read)}},
          {"Work", std::move(work)},
          {"Rates over the wall time", std::move(rates)}};
}

RunReport::~RunReport() { end(); }

Status RunReport::begin(const ReportOptions& options) {
  options_ = options;
  if (!options_.html.empty()) HEADRACE_TRY(html_.open(options_.html));
  if (!options_.trace.empty()) HEADRACE_TRY(trace_.open(options_.trace));
  if (!options_.wanted()) return {};
  HEADRACE_TRY(trace::start());
  recording_ = true;
  begin_ns_ = now_ns();
  return {};
}

std::uint64_t RunReport::now_ns() noexcept {  // same clock as the trace
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void RunReport::end() noexcept {
  if (!recording_) return;
  trace::stop();
  end_ns_ = now_ns();
}

void RunReport::end(double seconds) noexcept {
  end();
  end_ns_ = begin_ns_ + static_cast<std::uint64_t>(seconds * 1e9 + 0.5);
}

void RunReport::wrote(std::uint64_t begin_ns, std::uint64_t bytes) {
  if (recording_) writes_.push_back({trace::Stage::kWrite, trace::Stage::kWait, 0, 0, begin_ns, now_ns(), bytes});
}

Status RunReport::write(ReportSummary summary) {
  if (!recording_) return {};
  recording_ = false;
  HEADRACE_TRY_ASSIGN(trace::Trace recorded, trace::take());
  summary.run_seconds = static_cast<double>(end_ns_ - begin_ns_) * 1e-9;
  summary.facts.push_back(run_facts());
  cut_to_run(recorded, begin_ns_, end_ns_, std::move(writes_));
  if (!options_.html.empty()) {
    HEADRACE_TRY_ASSIGN(const std::string page, html_report(recorded, summary));
    HEADRACE_TRY(finish(html_, page));
  }
  if (options_.trace.empty()) return {};
  HEADRACE_TRY_ASSIGN(const std::string timeline, chrome_trace(recorded));
  return finish(trace_, timeline);
}

}  // namespace headrace::cli
