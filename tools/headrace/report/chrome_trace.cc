#include "report/chrome_trace.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "json_text.h"
#include "report/run_report.h"
#include "report/timeline.h"

namespace headrace::cli {
namespace {

std::string span_name(const trace::SpanRecord& event) {
  std::string name = trace::stage_name(event.stage);
  if (event.stage == trace::Stage::kWait && event.waits_for != trace::Stage::kWait) {
    name += std::string(" for ") + trace::stage_name(event.waits_for);
  }
  return name;
}

void append(std::string& out, const Json& event) { out += json_text(event) + ",\n"; }

void append_row_name(std::string& out, std::size_t row, const std::string& name) {
  append(out, {{"ph", "M"}, {"pid", 1}, {"tid", row}, {"name", "thread_name"}, {"args", {{"name", name}}}});
  append(out, {{"ph", "M"}, {"pid", 1}, {"tid", row}, {"name", "thread_sort_index"}, {"args", {{"sort_index", row}}}});
}

}  // namespace

Result<std::string> chrome_trace(const trace::Trace& trace) {
  HEADRACE_TRY_ASSIGN(const std::string verdict, trace.bottleneck());
  // Written event by event: a JSON document of all events would need several times the memory of its text.
  std::string out = json_text(
      {{"displayTimeUnit", "ms"},
       {"otherData",
        {{"bottleneck", verdict}, {"lost_events", trace.lost_events}, {"wall_seconds", trace.wall_seconds()}}}});
  out.back() = ',';
  out += "\n\"traceEvents\":[\n";
  append(out, {{"ph", "M"}, {"pid", 1}, {"tid", 0}, {"name", "process_name"}, {"args", {{"name", "headrace"}}}});
  // Spans of one row must nest, so concurrent operations are placed in separate rows.
  std::vector<std::vector<std::size_t>> packed(trace.tracks.size());
  std::vector<std::size_t> first_row(trace.tracks.size()), next(trace.tracks.size(), 0);
  std::size_t rows = 1;
  for (std::uint32_t track = 0; track < trace.tracks.size(); ++track) {
    first_row[track] = rows;
    const std::string& name = trace.tracks[track].name;
    if (trace.tracks[track].kind == trace::TrackKind::kThread) {
      append_row_name(out, rows++, name);
      continue;
    }
    packed[track] = rows_of_track(trace, track, std::numeric_limits<std::size_t>::max());
    std::size_t count = 0;
    for (std::size_t row : packed[track]) count = std::max(count, row + 1);
    for (std::size_t i = 1; i <= count; ++i) append_row_name(out, rows++, name + " " + std::to_string(i));
  }
  const std::uint64_t begin_ns = trace.events.empty() ? 0 : trace.events.front().start_ns;
  for (const trace::SpanRecord& event : trace.events) {
    if (event.track >= trace.tracks.size()) continue;
    const std::size_t row =
        first_row[event.track] + (packed[event.track].empty() ? 0 : packed[event.track][next[event.track]++]);
    append(out, {{"ph", "X"},
                 {"pid", 1},
                 {"tid", row},
                 {"cat", trace::stage_name(event.stage)},
                 {"name", span_name(event)},
                 {"ts", static_cast<double>(event.start_ns - begin_ns) / 1e3},
                 {"dur", static_cast<double>(event.end_ns - event.start_ns) / 1e3},
                 {"args", {{"bytes", event.bytes}, {"detail", event.detail}}}});
  }
  out.resize(out.size() - 2);  // removes the last comma; there is always at least the process name
  return out + "\n]}\n";
}

Status write_chrome_trace(const std::string& path, const trace::Trace& trace) {
  HEADRACE_TRY_ASSIGN(const std::string text, chrome_trace(trace));
  return write_text_file(path, text);
}

}  // namespace headrace::cli
