#include "report/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli_common.h"
#include "report/html_report.h"

namespace headrace::cli {
namespace {

constexpr std::size_t kMaxRectangles = 8000;  // about 150 bytes of the page each
constexpr std::size_t kMaxThreads = 160, kMaxRowsInFlight = 12;
constexpr std::size_t kMaxColumns = 535;
constexpr double kLabelWidth = 130, kPlotWidth = 1070, kThreadRow = 18, kFlightRow = 8, kAxis = 22, kLaneGap = 6;

struct Row {
  double top = 0, height = 0;
  std::string label;
  double bar_height() const { return height > kFlightRow ? height - 3 : height - 1; }
};

// An event and its row.
struct Bar {
  std::size_t row = 0;
  trace::SpanRecord event;
};

struct Rectangle {
  std::size_t row = 0, stage = 0;
  double begin_ns = 0, length_ns = 0;  // relative to the trace's start
  double top = 0, height = 0;          // within the row
  std::string title;
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string span_title(const trace::SpanRecord& event, std::uint64_t begin_ns) {
  std::string text = trace::stage_name(event.stage);
  if (event.stage == trace::Stage::kWait && event.waits_for != trace::Stage::kWait) {
    text += std::string(" for ") + trace::stage_name(event.waits_for);
  }
  text += ", " + human_seconds(static_cast<double>(event.end_ns - event.start_ns) * 1e-9);
  if (event.bytes > 0) text += ", " + human_bytes(event.bytes);
  return text + ", at " + human_seconds(static_cast<double>(event.start_ns - begin_ns) * 1e-9);
}

std::vector<Rectangle> draw_spans(const std::vector<Bar>& bars, const std::vector<Row>& rows, std::uint64_t begin_ns) {
  std::vector<Rectangle> out;
  for (const Bar& bar : bars) {
    const trace::SpanRecord& event = bar.event;
    const bool wait = event.stage == trace::Stage::kWait;
    out.push_back({bar.row, static_cast<std::size_t>(event.stage), static_cast<double>(event.start_ns - begin_ns),
                   static_cast<double>(event.end_ns - event.start_ns), wait ? 5.5 : 0,
                   wait ? 4 : rows[bar.row].bar_height(), span_title(event, begin_ns)});
  }
  return out;
}

// For more spans than can be drawn: divides each row into columns of time, and each column among the stages.
std::vector<Rectangle> draw_columns(const std::vector<Bar>& bars, const std::vector<Row>& rows, std::uint64_t begin_ns,
                                    double column_ns, std::size_t columns) {
  std::vector<std::array<float, trace::kStageCount>> times(rows.size() * columns);
  for (const Bar& bar : bars) {
    const auto begin = static_cast<double>(bar.event.start_ns - begin_ns);
    const auto end = static_cast<double>(bar.event.end_ns - begin_ns);
    for (auto column = static_cast<std::size_t>(begin / column_ns); column < columns; ++column) {
      const double from = std::max(begin, static_cast<double>(column) * column_ns);
      const double until = std::min(end, static_cast<double>(column + 1) * column_ns);
      if (until <= from) break;
      times[bar.row * columns + column][static_cast<std::size_t>(bar.event.stage)] += static_cast<float>(until - from);
    }
  }
  std::vector<Rectangle> out;
  for (std::size_t i = 0; i < times.size(); ++i) {
    float sum = 0;
    for (float time : times[i]) sum += time;
    // Nested spans count for each of their stages, so the sum may exceed the column.
    const double whole = std::max<double>(column_ns, sum), height = rows[i / columns].bar_height();
    double top = 0;
    for (std::size_t stage = 0; stage < trace::kStageCount; ++stage) {
      const double share = times[i][stage] / whole;
      if (share < 0.01) continue;
      const std::string title = std::string(trace::stage_name(static_cast<trace::Stage>(stage))) + " " +
                                std::to_string(static_cast<int>(std::lround(100 * share))) + "%";
      out.push_back(
          {i / columns, stage, static_cast<double>(i % columns) * column_ns, column_ns, top, share * height, title});
      top += share * height;
    }
  }
  return out;
}

// 1, 2 or 5 times a power of ten, for about eight ticks.
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

std::vector<std::size_t> rows_of_track(const trace::Trace& trace, std::uint32_t track, std::size_t max_rows) {
  std::vector<std::size_t> rows;
  std::vector<std::uint64_t> free_at;
  for (const trace::SpanRecord& event : trace.events) {
    if (event.track != track) continue;
    std::size_t row = 0;
    while (row < free_at.size() && free_at[row] > event.start_ns) ++row;
    if (row == free_at.size() && row < max_rows) free_at.push_back(0);
    if (row == free_at.size()) {
      row = static_cast<std::size_t>(std::min_element(free_at.begin(), free_at.end()) - free_at.begin());
    }
    free_at[row] = std::max(free_at[row], event.end_ns);
    rows.push_back(row);
  }
  return rows;
}

std::string timeline_svg(const trace::Trace& trace, std::uint64_t& resolution_ns) {
  const std::uint64_t begin_ns = trace.begin_ns();
  const double wall = trace.wall_seconds();

  // Rows: threads first, then operations in flight.
  std::vector<Row> rows;
  std::vector<std::vector<std::size_t>> packed(trace.tracks.size());
  std::vector<std::size_t> first_row(trace.tracks.size(), 0);
  std::vector<bool> drawn(trace.tracks.size(), false);
  std::size_t threads = 0;
  double bottom = kAxis;
  for (const bool flight : {false, true}) {
    for (std::uint32_t track = 0; track < trace.tracks.size(); ++track) {
      if ((trace.tracks[track].kind != trace::TrackKind::kThread) != flight || (!flight && threads == kMaxThreads))
        continue;
      drawn[track] = true;
      threads += flight ? 0 : 1;
      first_row[track] = rows.size();
      std::size_t count = 1;
      if (flight) {
        packed[track] = rows_of_track(trace, track, kMaxRowsInFlight);
        for (std::size_t row : packed[track]) count = std::max(count, row + 1);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const double height = flight ? kFlightRow : kThreadRow;
        rows.push_back({bottom, height, i == 0 ? trace.tracks[track].name : ""});
        bottom += height;
      }
      if (flight) bottom += kLaneGap;
    }
  }

  std::vector<Bar> bars;
  std::vector<std::size_t> next(trace.tracks.size(), 0);
  for (const trace::SpanRecord& event : trace.events) {
    if (event.track >= trace.tracks.size() || !drawn[event.track]) continue;
    const std::size_t row =
        first_row[event.track] + (packed[event.track].empty() ? 0 : packed[event.track][next[event.track]++]);
    if (event.end_ns < begin_ns) continue;
    bars.push_back({row, event});
    bars.back().event.start_ns = std::max(event.start_ns, begin_ns);
  }
  const double length_ns = std::max(wall * 1e9, 1.0);
  std::vector<Rectangle> rectangles;
  resolution_ns = 0;
  if (bars.size() <= kMaxRectangles) {
    rectangles = draw_spans(bars, rows, begin_ns);
  } else {
    for (std::size_t columns = kMaxColumns; columns > 8; columns /= 2) {
      const double column_ns = length_ns / static_cast<double>(columns);
      resolution_ns = static_cast<std::uint64_t>(column_ns);
      rectangles = draw_columns(bars, rows, begin_ns, column_ns, columns);
      if (rectangles.size() <= kMaxRectangles) break;
    }
  }

  std::string out = "<svg class=\"timeline\" viewBox=\"0 0 " + number(kLabelWidth + kPlotWidth) + " " +
                    number(bottom + 4) + "\" role=\"img\" aria-label=\"timeline\">\n" + axis(wall, bottom);
  // Grouped by row to save attributes; within a row by start, so that nested spans are drawn on top.
  std::stable_sort(rectangles.begin(), rectangles.end(),
                   [](const Rectangle& a, const Rectangle& b) { return a.row < b.row; });
  const double scale = kPlotWidth / length_ns;
  auto next_one = rectangles.begin();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out += "<g transform=\"translate(0 " + number(row.top) + ")\">";
    if (!row.label.empty()) {
      out += "<text class=\"track\" x=\"0\" y=\"" + number(row.height > kFlightRow ? 13 : 8) + "\">" +
             escape_html(row.label) + "</text>";
    }
    for (; next_one != rectangles.end() && next_one->row == i; ++next_one) {
      out += "<rect class=\"s" + std::to_string(next_one->stage) + "\" x=\"" +
             number(kLabelWidth + next_one->begin_ns * scale) + "\" y=\"" + number(next_one->top) + "\" width=\"" +
             number(std::max(next_one->length_ns * scale, 0.3)) + "\" height=\"" + number(next_one->height) +
             "\"><title>" + escape_html(next_one->title) + "</title></rect>\n";
    }
    out += "</g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace headrace::cli
