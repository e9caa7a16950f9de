#include "report/timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli_common.h"
#include "report/html_report.h"

namespace headrace::cli {
namespace {

constexpr std::size_t kMostRectangles = 8000;  // some 150 bytes of the page each
constexpr std::size_t kMostRowsInFlight = 12;
constexpr double kLabelWidth = 130, kPlotWidth = 1070, kThreadRow = 18, kFlightRow = 8, kAxis = 22, kLaneGap = 6;

struct Bar {
  std::size_t row = 0;
  trace::Event event;  // first span; end and bytes of all
  std::uint64_t spans = 1;
};

struct Row {
  double top = 0, height = 0;
  std::string label;
};

bool in_flight(const trace::Trace& trace, std::uint32_t lane) {
  return trace.lanes[lane].kind != trace::LaneKind::kThread;
}

// Neighbours of a stage in a row that are less than `gap_ns` apart become one bar.
std::vector<Bar> merge(const std::vector<Bar>& bars, std::size_t row_count, std::uint64_t gap_ns) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<Bar> out;
  std::vector<std::size_t> last(row_count * trace::kStageCount * trace::kStageCount, kNone);
  for (const Bar& bar : bars) {
    const auto stage = static_cast<std::size_t>(bar.event.stage),
               waits_for = static_cast<std::size_t>(bar.event.waits_for);
    std::size_t& before = last[(bar.row * trace::kStageCount + stage) * trace::kStageCount + waits_for];
    if (before != kNone && bar.event.start_ns < out[before].event.end_ns + gap_ns) {
      Bar& joined = out[before];
      joined.event.end_ns = std::max(joined.event.end_ns, bar.event.end_ns);
      joined.event.bytes += bar.event.bytes;
      ++joined.spans;
      continue;
    }
    before = out.size();
    out.push_back(bar);
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string tooltip(const Bar& bar, std::uint64_t begin_ns) {
  const trace::Event& event = bar.event;
  std::string text = trace::stage_name(event.stage);
  if (event.stage == trace::Stage::kWait && event.waits_for != trace::Stage::kWait) {
    text += std::string(" for ") + trace::stage_name(event.waits_for);
  }
  if (bar.spans > 1) text += ", " + human_count(bar.spans) + " spans";
  text += ", " + human_seconds(static_cast<double>(event.end_ns - event.start_ns) * 1e-9);
  if (event.bytes > 0) text += ", " + human_bytes(event.bytes);
  return text + ", at " + human_seconds(static_cast<double>(event.start_ns - begin_ns) * 1e-9);
}

// 1, 2 or 5 times a power of ten, for about eight marks.
double tick_seconds(double wall) {
  const double rough = std::max(wall, 1e-9) / 8, power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string axis(double wall, double bottom) {
  std::string out = "<g class=\"axis\">\n";
  const double tick = tick_seconds(wall);
  for (int i = 0; i * tick <= wall * 1.0001; ++i) {
    const double x = kLabelWidth + (wall > 0 ? i * tick / wall * kPlotWidth : 0);
    out += "<line x1=\"" + number(x) + "\" x2=\"" + number(x) + "\" y1=\"" + number(kAxis - 4) + "\" y2=\"" +
           number(bottom) + "\"/>";
    const char* anchor = i == 0 ? "start" : x > kLabelWidth + kPlotWidth - 40 ? "end" : "middle";
    out += "<text x=\"" + number(x) + "\" y=\"12\" text-anchor=\"" + anchor + "\">" +
           (i == 0 ? "0" : escape_html(human_seconds(i * tick))) + "</text>\n";
  }
  return out + "</g>\n";
}

}  // namespace

std::vector<std::size_t> rows_of_lane(const trace::Trace& trace, std::uint32_t lane, std::size_t most_rows) {
  std::vector<std::size_t> rows;
  std::vector<std::uint64_t> free_at;
  for (const trace::Event& event : trace.events) {
    if (event.lane != lane) continue;
    std::size_t row = 0;
    while (row < free_at.size() && free_at[row] > event.start_ns) ++row;
    if (row == free_at.size() && row < most_rows) free_at.push_back(0);
    if (row == free_at.size()) {
      row = static_cast<std::size_t>(std::min_element(free_at.begin(), free_at.end()) - free_at.begin());
    }
    free_at[row] = std::max(free_at[row], event.end_ns);
    rows.push_back(row);
  }
  return rows;
}

std::string timeline_svg(const trace::Trace& trace, std::uint64_t& resolution_ns) {
  const std::uint64_t begin_ns = trace.begin_ns(), end_ns = trace.end_ns();
  const double wall = trace.wall_seconds();

  // Rows: threads, then what was in flight.
  std::vector<Row> rows;
  std::vector<std::vector<std::size_t>> packed(trace.lanes.size());
  std::vector<std::size_t> first_row(trace.lanes.size(), 0);
  double bottom = kAxis;
  for (const bool flight : {false, true}) {
    for (std::uint32_t lane = 0; lane < trace.lanes.size(); ++lane) {
      if (in_flight(trace, lane) != flight) continue;
      first_row[lane] = rows.size();
      std::size_t count = 1;
      if (flight) {
        packed[lane] = rows_of_lane(trace, lane, kMostRowsInFlight);
        for (std::size_t row : packed[lane]) count = std::max(count, row + 1);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const double height = flight ? kFlightRow : kThreadRow;
        rows.push_back({bottom, height, i == 0 ? trace.lanes[lane].name : ""});
        bottom += height;
      }
      if (flight) bottom += kLaneGap;
    }
  }

  std::vector<Bar> bars;
  std::vector<std::size_t> next(trace.lanes.size(), 0);
  for (const trace::Event& event : trace.events) {
    if (event.lane >= trace.lanes.size()) continue;
    const std::size_t row =
        first_row[event.lane] + (packed[event.lane].empty() ? 0 : packed[event.lane][next[event.lane]++]);
    if (event.end_ns < begin_ns) continue;
    Bar bar{row, event, 1};
    bar.event.start_ns = std::max(event.start_ns, begin_ns);
    bars.push_back(bar);
  }
  resolution_ns = 0;
  const std::uint64_t length_ns = end_ns - begin_ns;
  for (std::uint64_t gap = length_ns / 4000 + 1; bars.size() > kMostRectangles && gap / 2 <= length_ns; gap *= 2) {
    bars = merge(bars, rows.size(), gap);
    resolution_ns = gap;
  }

  std::string out = "<svg class=\"timeline\" viewBox=\"0 0 " + number(kLabelWidth + kPlotWidth) + " " +
                    number(bottom + 4) + "\" role=\"img\" aria-label=\"timeline\">\n" + axis(wall, bottom);
  // By row, so that a bar need not say where it is; within a row by start, so that a nested span lies on top.
  std::stable_sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) { return a.row < b.row; });
  auto bar = bars.begin();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out += "<g transform=\"translate(0 " + number(row.top) + ")\">";
    if (!row.label.empty()) {
      out += "<text class=\"lane\" x=\"0\" y=\"" + number(row.height > kFlightRow ? 13 : 8) + "\">" +
             escape_html(row.label) + "</text>";
    }
    for (; bar != bars.end() && bar->row == i; ++bar) {
      const double scale = wall > 0 ? kPlotWidth / (wall * 1e9) : 0;
      const double x = kLabelWidth + static_cast<double>(bar->event.start_ns - begin_ns) * scale;
      const double width = std::max(static_cast<double>(bar->event.end_ns - bar->event.start_ns) * scale, 0.3);
      const bool wait = bar->event.stage == trace::Stage::kWait;
      const double height = wait ? 4 : row.height - (row.height > kFlightRow ? 3 : 1);
      out += "<rect class=\"s" + std::to_string(static_cast<int>(bar->event.stage)) + "\" x=\"" + number(x) + "\"" +
             (wait ? " y=\"5.5\"" : "") + " width=\"" + number(width) + "\" height=\"" + number(height) + "\"><title>" +
             escape_html(tooltip(*bar, begin_ns)) + "</title></rect>\n";
    }
    out += "</g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace headrace::cli
