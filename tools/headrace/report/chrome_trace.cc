#include "report/chrome_trace.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "json_writer.h"
#include "report/run_report.h"
#include "report/timeline.h"

namespace headrace::cli {
namespace {

// One value, without the newline that ends a document.
std::string json(std::string_view text) {
  std::string out = JsonWriter().value(text).text();
  out.pop_back();
  return out;
}

std::string json_number(double value) {
  std::string out = JsonWriter().value(value).text();
  out.pop_back();
  return out;
}

std::string span_name(const trace::Event& event) {
  std::string name = trace::stage_name(event.stage);
  if (event.stage == trace::Stage::kWait && event.waits_for != trace::Stage::kWait) {
    name += std::string(" for ") + trace::stage_name(event.waits_for);
  }
  return name;
}

void append_row_name(std::string& out, std::size_t row, const std::string& name) {
  const std::string id = std::to_string(row);
  out += "{\"ph\":\"M\",\"pid\":1,\"tid\":" + id + ",\"name\":\"thread_name\",\"args\":{\"name\":" + json(name) +
         "}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":" + id +
         ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":" + id + "}},\n";
}

}  // namespace

Result<std::string> chrome_trace(const trace::Trace& trace) {
  HEADRACE_TRY_ASSIGN(const std::string verdict, trace.bottleneck());
  std::string out = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"bottleneck\":" + json(verdict) +
                    ",\"lost_events\":" + std::to_string(trace.lost_events) +
                    ",\"wall_seconds\":" + json_number(trace.wall_seconds()) +
                    "},\n\"traceEvents\":[\n"
                    "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"headrace\"}},\n";
  // Spans of one row must nest, so what was in flight together is given rows of its own.
  std::vector<std::vector<std::size_t>> packed(trace.lanes.size());
  std::vector<std::size_t> first_row(trace.lanes.size()), next(trace.lanes.size(), 0);
  std::size_t rows = 1;
  for (std::uint32_t lane = 0; lane < trace.lanes.size(); ++lane) {
    first_row[lane] = rows;
    const std::string& name = trace.lanes[lane].name;
    if (trace.lanes[lane].kind == trace::LaneKind::kThread) {
      append_row_name(out, rows++, name);
      continue;
    }
    packed[lane] = rows_of_lane(trace, lane, std::numeric_limits<std::size_t>::max());
    std::size_t count = 0;
    for (std::size_t row : packed[lane]) count = std::max(count, row + 1);
    for (std::size_t i = 1; i <= count; ++i) append_row_name(out, rows++, name + " " + std::to_string(i));
  }
  const std::uint64_t begin_ns = trace.events.empty() ? 0 : trace.events.front().start_ns;
  for (const trace::Event& event : trace.events) {
    if (event.lane >= trace.lanes.size()) continue;
    const std::size_t row =
        first_row[event.lane] + (packed[event.lane].empty() ? 0 : packed[event.lane][next[event.lane]++]);
    char numbers[200];
    std::snprintf(numbers, sizeof numbers, "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"bytes\":%llu,\"detail\":%u}},\n",
                  static_cast<double>(event.start_ns - begin_ns) * 1e-3,
                  static_cast<double>(event.end_ns - event.start_ns) * 1e-3,
                  static_cast<unsigned long long>(event.bytes), event.detail);
    out += "{\"ph\":\"X\",\"pid\":1,\"tid\":" + std::to_string(row) + ",\"cat\":\"" + trace::stage_name(event.stage) +
           "\",\"name\":\"" + span_name(event) + "\"," + numbers;
  }
  out.resize(out.size() - 2);  // the last comma; there is always the name of the process
  return out + "\n]}\n";
}

Status write_chrome_trace(const std::string& path, const trace::Trace& trace) {
  HEADRACE_TRY_ASSIGN(const std::string text, chrome_trace(trace));
  return write_text_file(path, text);
}

}  // namespace headrace::cli
