#include "report/html_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "cli_common.h"
#include "report/run_facts.h"
#include "report/timeline.h"

namespace headrace::cli {
namespace {

// Colours by role and stage, for light and dark mode.
constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1c2430; --soft: #5b6676; --line: #dde2e9;
  --s0: #8a63c7; --s1: #b98a14; --s2: #2674d9; --s3: #b4bcc8; --s4: #e0702a; --s5: #1f9d68; --s6: #cf3f78;
  --s7: #5f7d8c; --s8: #8c4b2a; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1b212a; --text: #e6eaf0; --soft: #9aa6b5;
  --line: #313a47; --s0: #ab8be3; --s1: #d9ae42; --s2: #5c9df2; --s3: #56616f; --s4: #f0925a; --s5: #43c28b;
  --s6: #ec6f9f; --s7: #8db0c2; --s8: #c98a68; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 10px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 16px 18px;
  margin-top: 16px; }
.verdict { border-left: 5px solid var(--soft); font-size: 17px; }
.facts { color: var(--soft); margin: 0; overflow-wrap: anywhere; }
.facts span { margin-right: 18px; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 0 16px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child, .text { text-align: left; }
td.text { white-space: normal; overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; }
.bar { width: 22%; min-width: 90px; }
.grid td { white-space: normal; } .grid td + td { white-space: nowrap; } .grid td.text { white-space: normal; }
.grid .bar { width: 30%; min-width: 60px; }
.bar svg { display: block; width: 100%; height: 12px; }
.track { fill: var(--line); } .fill { fill: var(--s2); }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 7px; }
.entry { white-space: nowrap; margin-right: 12px; }
.timeline { display: block; width: 100%; min-width: 760px; height: auto; }
.timeline rect { shape-rendering: crispEdges; }
.timeline text { fill: var(--soft); font-size: 11px; }
.axis line { stroke: var(--line); }
.note { color: var(--soft); font-size: 13px; margin: 10px 0 0; }
)css";

std::string percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", whole > 0 ? 100 * part / whole : 0.0);
  return text;
}

std::string bar(double share, const std::string& fill_class) {
  char width[16];
  std::snprintf(width, sizeof width, "%.2f", 100 * std::fmin(std::fmax(share, 0), 1));
  return "<td class=\"bar\"><svg viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect "
         "class=\"track\" width=\"100\" height=\"12\"/>"
         "<rect class=\"" +
         fill_class + "\" width=\"" + width + "\" height=\"12\"/></svg></td>";
}

const char* bytes_meaning(trace::Stage stage) {
  switch (stage) {
    case trace::Stage::kRead:
      return "read";
    case trace::Stage::kCopy:
      return "over the bus";
    case trace::Stage::kDecode:
      return "decoded";
    case trace::Stage::kAssemble:
      return "placed";
    case trace::Stage::kRegister:
      return "registered";
    case trace::Stage::kWrite:
      return "written";
    default:
      return "";
  }
}

// Seconds of each stage that are the device's own work, which Stats does not count.
std::array<double, trace::kStageCount> device_seconds(const trace::Trace& trace) {
  std::array<double, trace::kStageCount> out{};
  const std::uint64_t begin = trace.begin_ns();
  for (const trace::SpanRecord& event : trace.events) {
    if (event.track >= trace.tracks.size() || trace.tracks[event.track].kind != trace::TrackKind::kDevice) continue;
    if (event.end_ns < begin) continue;
    out[static_cast<std::size_t>(event.stage)] +=
        static_cast<double>(event.end_ns - std::max(event.start_ns, begin)) * 1e-9;
  }
  return out;
}

std::string summed_seconds(double all, double device) {
  if (device <= 0) return human_seconds(all);
  const double threads = all - device;
  const std::string on_device = human_seconds(device) + " on the device";
  return threads > 1e-9 ? human_seconds(threads) + ", " + on_device : on_device;
}

std::string stage_table(const std::array<trace::StageTotals, trace::kStageCount>& totals,
                        const std::array<double, trace::kStageCount>& on_device, double wall) {
  std::string out =
      "<section><h2>Stages</h2><div "
      "class=\"wide\"><table><tr><th>stage</th><th>busy</th><th></th><th>limits</th><th></th>"
      "<th>spans</th><th>seconds, summed</th><th>bytes</th></tr>\n";
  for (std::size_t s = 0; s < totals.size(); ++s) {
    const trace::StageTotals& total = totals[s];
    const auto stage = static_cast<trace::Stage>(s);
    if (total.spans == 0 && total.limiting_seconds == 0) continue;
    const std::string colour = "s" + std::to_string(s);
    out += "<tr><td><span class=\"key b" + std::to_string(s) + "\"></span>" + trace::stage_name(stage) + "</td><td>" +
           percent(total.busy_seconds, wall) + "</td>" + bar(wall > 0 ? total.busy_seconds / wall : 0, colour);
    if (stage == trace::Stage::kWait) {
      out += "<td></td><td></td>";
    } else {
      out += "<td>" + percent(total.limiting_seconds, wall) + "</td>" +
             bar(wall > 0 ? total.limiting_seconds / wall : 0, colour);
    }
    out += "<td>" + human_count(total.spans) + "</td><td>" + summed_seconds(total.seconds, on_device[s]) + "</td><td>";
    if (total.bytes > 0) out += human_bytes(total.bytes) + " " + bytes_meaning(stage);
    out += "</td></tr>\n";
  }
  return out +
         "</table></div><p class=\"note\">Busy: part of the wall time in which at least one span of the stage was "
         "open. "
         "Limits: part of the wall time in which threads worked in the stage or waited for it; these add up to 100% at "
         "most. Seconds are summed over threads and requests in flight, as --stats gives them; what the device did "
         "itself stands apart.</p></section>\n";
}

// Explains the stages and rows of this page.
std::string glossary(const trace::Trace& trace, const std::array<trace::StageTotals, trace::kStageCount>& totals) {
  std::string out = "<section><h2>What the words mean</h2><table>\n";
  const auto row = [&out](const std::string& word, const std::string& meaning) {
    out += "<tr><td>" + escape_html(word) + "</td><td class=\"text\">" + escape_html(meaning) + "</td></tr>\n";
  };
  for (std::size_t s = 0; s < totals.size(); ++s) {
    const auto stage = static_cast<trace::Stage>(s);
    if (totals[s].spans > 0) row(trace::stage_name(stage), stage_meaning(stage));
  }
  std::set<std::string> seen;
  for (const trace::Track& track : trace.tracks) {
    const std::size_t number = track.name.find_last_not_of("0123456789");
    std::string name = track.name;
    if (number != std::string::npos && number + 1 < name.size() && name[number] == ' ') name.resize(number);
    const std::string meaning = track_meaning(name);
    if (!meaning.empty() && seen.insert(name).second) row(name, meaning);
  }
  row("wave", "the chunks that are read, copied and decoded together; several waves are under way at a time");
  row("span", "one piece of work, from its begin to its end");
  return out + "</table></section>\n";
}

std::string fact_table(const ReportTable& table) {
  bool bars = false;
  for (const ReportRow& row : table.rows) bars = bars || row.share >= 0;
  std::string out = "<section><h2>" + escape_html(table.heading) + "</h2><table>\n";
  for (const ReportRow& row : table.rows) {
    out += "<tr><td>" + escape_html(row.name) + "</td><td class=\"" + (bars ? "" : "text") + "\">" +
           escape_html(row.value) + "</td>" +
           (!bars            ? ""
            : row.share >= 0 ? bar(row.share, "fill")
                             : "<td></td>") +
           "</tr>\n";
  }
  return out + "</table></section>\n";
}

std::string legend(const std::array<trace::StageTotals, trace::kStageCount>& totals) {
  std::string out = "<p class=\"note\">";
  for (std::size_t s = 0; s < totals.size(); ++s) {
    if (totals[s].spans == 0) continue;
    out += "<span class=\"entry\"><span class=\"key b" + std::to_string(s) + "\"></span>" +
           trace::stage_name(static_cast<trace::Stage>(s)) + "</span> ";
  }
  return out + "</p>\n";
}

std::string page(const trace::Trace& trace, const std::array<trace::StageTotals, trace::kStageCount>& totals,
                 const std::string& verdict, const ReportSummary& summary) {
  const double wall = trace.wall_seconds();
  std::uint64_t resolution_ns = 0;
  const std::string picture = timeline_svg(trace, resolution_ns);
  const std::string title = escape_html(summary.title);
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>" + kStyle;
  for (std::size_t s = 0; s < totals.size(); ++s) {
    const std::string n = std::to_string(s);
    out += ".s" + n + " { fill: var(--s" + n + "); } .b" + n + " { background: var(--s" + n + "); }\n";
  }
  out += "</style>\n</head>\n<body>\n<main>\n<h1>" + title + "</h1>\n";
  auto facts = summary.facts.begin();
  if (facts != summary.facts.end()) {
    out += "<p class=\"facts\">";
    for (const ReportRow& row : facts->rows) {
      out += "<span>" + escape_html(row.name) + " " + escape_html(row.value) + "</span> ";
    }
    out += "</p>\n";
    ++facts;
  }
  out += "<section class=\"verdict\">";
  if (trace.lost_events > 0) {
    out += "This is about the last " + escape_html(human_seconds(wall)) +
           (summary.run_seconds > wall ? " of a run of " + escape_html(human_seconds(summary.run_seconds)) : "") +
           " only: " + human_count(trace.lost_events) +
           " older spans were overwritten, and nothing below that is drawn or shared out knows of them. ";
  }
  out += escape_html(verdict);
  if (const std::string hint = advice(totals, wall); !hint.empty()) out += " " + escape_html(hint);
  out += "</section>\n";
  out += "<section><h2>Timeline</h2><div class=\"wide\">" + picture + "</div>" + legend(totals) + "<p class=\"note\">" +
         human_count(trace.events.size()) + " spans on " + human_count(trace.tracks.size()) + " tracks in " +
         escape_html(human_seconds(wall)) + ". ";
  if (resolution_ns > 0) {
    out += "There are too many to draw each: a column stands for " +
           human_seconds(static_cast<double>(resolution_ns) * 1e-9) + " and is divided as that time was. ";
  }
  out += "Point at a part for details.</p></section>\n" + stage_table(totals, device_seconds(trace), wall) +
         "<div class=\"grid\">\n";
  for (; facts != summary.facts.end(); ++facts) out += fact_table(*facts);
  return out + "</div>\n" + glossary(trace, totals) + "</main>\n</body>\n</html>\n";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += "\xEF\xBF\xBD";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

Result<std::string> html_report(const trace::Trace& trace, const ReportSummary& summary) {
  HEADRACE_TRY_ASSIGN(const auto totals, trace.totals());
  HEADRACE_TRY_ASSIGN(const std::string verdict, trace.bottleneck());
  return page(trace, totals, verdict, summary);
}

Status write_html_report(const std::string& path, const trace::Trace& trace, const ReportSummary& summary) {
  HEADRACE_TRY_ASSIGN(const std::string text, html_report(trace, summary));
  return write_text_file(path, text);
}

}  // namespace headrace::cli
