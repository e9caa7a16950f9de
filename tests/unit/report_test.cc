// The report's page stays small and contains no foreign markup, whatever the trace and the names in it; the trace for
// Perfetto is JSON with properly nested rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/chrome_trace.h"
#include "report/html_report.h"
#include "report/run_report.h"
#include "report/timeline.h"
#include "support/temp_dir.h"

namespace headrace::cli {
namespace {

using trace::Stage;
using trace::Trace;
using trace::TrackKind;

constexpr const char* kHostile = "</title><script>alert(1)</script>\"'&<img src=x onerror=y>\x01\xff";

// Two threads that alternate between stages, and reads, eight of which are in flight at a time.
Trace example(std::size_t spans) {
  Trace trace;
  trace.tracks = {{TrackKind::kIo, "I/O in flight"}, {TrackKind::kThread, "worker 1"}, {TrackKind::kThread, kHostile}};
  for (std::uint64_t i = 0; i < spans; ++i) {
    const std::uint64_t at = 1'000'000 + i * 1000;
    trace.events.push_back({Stage::kRead, Stage::kWait, 0, 0, at, at + 8000, 4096});
    const auto stage = i % 3 == 0 ? Stage::kDecode : i % 3 == 1 ? Stage::kAssemble : Stage::kWait;
    trace.events.push_back({stage, Stage::kRead, static_cast<std::uint32_t>(1 + i % 2), 0, at, at + 900, 100});
  }
  return trace;
}

ReportSummary hostile_summary() {
  ReportSummary summary;
  summary.title = kHostile;
  for (int i = 0; i < 2; ++i) summary.facts.push_back({kHostile, {{kHostile, kHostile}, {kHostile, kHostile, 0.5}}});
  return summary;
}

TEST(Report, EscapesMarkup) {
  EXPECT_EQ(escape_html("a<b>&\"c\"'d'"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;");
  EXPECT_EQ(escape_html("tab\tline\n"), "tab\tline\n");
  EXPECT_EQ(escape_html("\xc3\xa9t\xc3\xa9"), "\xc3\xa9t\xc3\xa9");
  EXPECT_EQ(escape_html("\x01|\xff|\xc3|\x7f"), "\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD");
  EXPECT_EQ(escape_html(std::string_view("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(Report, NoForeignMarkupComesThrough) {
  const std::string page = html_report(example(50), hostile_summary()).value();
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)"), std::string::npos);
  EXPECT_NE(page.find("worker 1"), std::string::npos);
}

TEST(Report, NothingIsFetched) {
  Trace trace = example(50);
  trace.tracks[2].name = "worker 2";
  const std::string page = html_report(trace, {"read", {}}).value();
  for (const char* text : {"http://", "https://", "src=", "url(", "@import", "<link"}) {
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(Report, ALongTraceIsDrawnCoarselyAndSaysSo) {
  std::uint64_t resolution_ns = 1;
  timeline_svg(example(1000), resolution_ns);
  EXPECT_EQ(resolution_ns, 0u);
  const Trace trace = example(300'000);
  const std::string picture = timeline_svg(trace, resolution_ns);
  EXPECT_GT(resolution_ns, 0u);
  const std::string page = html_report(trace, {"read", {}}).value();
  EXPECT_LT(page.size(), std::size_t{2} << 20);
  EXPECT_GT(page.size(), std::size_t{10} << 10);
  EXPECT_NE(page.find("too many to draw each"), std::string::npos);
  // Each thread alternates between decode or assemble and waiting; every column shows both.
  EXPECT_NE(page.find("<title>decode 15%"), std::string::npos);
  EXPECT_NE(page.find("<title>wait 15%"), std::string::npos);
  EXPECT_NE(page.find("600,000 spans"), std::string::npos);
}

TEST(Report, TheVerdictOnPartOfARunSaysSoFirst) {
  Trace trace = example(100);
  ReportSummary summary{"bench", {}, 12.5};
  EXPECT_EQ(html_report(trace, summary).value().find("This is about the last"), std::string::npos);
  trace.lost_events = 1234;
  const std::string page = html_report(trace, summary).value();
  const std::size_t verdict = page.find("<section class=\"verdict\">This is about the last ");
  ASSERT_NE(verdict, std::string::npos);
  EXPECT_LT(page.find("of a run of 12.5 s only: 1,234 older spans"), page.find("</section>", verdict));
}

TEST(Report, WordsAreExplained) {
  Trace trace = example(100);
  trace.tracks[1].name = "mapper 1";
  trace.events[0].stage = Stage::kRegister;
  const std::string page = html_report(trace, {"read", {}}).value();
  for (const char* word : {"<td>mapper</td>", "<td>register</td>", "<td>wave</td>"}) {
    EXPECT_NE(page.find(word), std::string::npos) << word;
  }
}

TEST(Report, ManyThreadsStaySmallToo) {
  Trace trace;
  for (std::uint32_t track = 0; track < 2000; ++track) {
    trace.tracks.push_back({TrackKind::kThread, "worker"});
    for (std::uint64_t s = 0; s < trace::kStageCount; ++s) {
      trace.events.push_back({static_cast<Stage>(s), Stage::kWait, track, 0, s * 10, s * 10 + 5, 1});
    }
  }
  std::uint64_t resolution_ns = 0;
  EXPECT_LT(timeline_svg(trace, resolution_ns).size(), std::size_t{2} << 20);
}

TEST(Report, AnEmptyTraceMakesAPageAndATimeline) {
  const Trace trace;
  EXPECT_NE(html_report(trace, {"read", {}}).value().find("Nothing was recorded"), std::string::npos);
  const auto json = nlohmann::json::parse(chrome_trace(trace).value());
  EXPECT_EQ(json["traceEvents"].size(), 1u);
}

TEST(Report, RowsOfALaneDoNotOverlap) {
  const Trace trace = example(500);
  const std::vector<std::size_t> rows = rows_of_track(trace, 0, 1000);
  ASSERT_EQ(rows.size(), 500u);
  std::map<std::size_t, std::uint64_t> until;
  std::size_t at = 0;
  for (const trace::SpanRecord& event : trace.events) {
    if (event.track != 0) continue;
    EXPECT_GE(event.start_ns, until[rows[at]]);
    until[rows[at++]] = event.end_ns;
  }
  EXPECT_EQ(until.size(), 8u);
  const std::vector<std::size_t> few = rows_of_track(trace, 0, 3);
  EXPECT_LT(*std::max_element(few.begin(), few.end()), 3u);
}

TEST(Report, TheTimelineForPerfettoHasEverySpan) {
  const Trace trace = example(100);
  const auto json = nlohmann::json::parse(chrome_trace(trace).value());
  std::map<int, std::string> names;
  std::map<int, double> until;
  std::size_t spans = 0, waits = 0;
  std::uint64_t bytes = 0;
  for (const auto& event : json.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 1);
    const int row = event.at("tid");
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") names[row] = event.at("args").at("name");
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    ASSERT_TRUE(names.count(row)) << "a row without a name";
    ++spans;
    waits += event.at("name") == "wait for read" ? 1 : 0;
    bytes += event.at("args").at("bytes").get<std::uint64_t>();
    EXPECT_GE(event.at("ts").get<double>() + 1e-6, until[row]) << "spans of a row overlap";
    until[row] = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  EXPECT_EQ(spans, trace.events.size());
  EXPECT_EQ(waits, 33u);
  EXPECT_EQ(bytes, 100u * (4096 + 100));
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), [](const auto& row) { return row.second == "I/O in flight 8"; }));
  EXPECT_EQ(json.at("otherData").at("lost_events"), 0);
}

TEST(Report, FilesAppearOnlyWhenTheyAreWhole) {
  support::TempDir directory;
  ReportOptions options;
  options.html = directory / "read.html";
  options.trace = directory / "read.json";
  {
    RunReport report;
    ASSERT_TRUE(report.begin(options).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a run that failed leaves nothing behind";
  RunReport report;
  ASSERT_TRUE(report.begin(options).ok());
  report.end();
  ASSERT_TRUE(report.write({"read", stats_tables({})}).ok());
  EXPECT_TRUE(std::filesystem::exists(options.html));
  EXPECT_TRUE(std::filesystem::exists(options.trace));
  EXPECT_TRUE(std::filesystem::exists(options.html));
  options.html = directory / "no/such/folder.html";
  RunReport bad;
  EXPECT_FALSE(bad.begin(options).ok());
  EXPECT_FALSE(write_html_report("/dev/full", example(10), {"read", {}}).ok());
  EXPECT_FALSE(write_chrome_trace("/dev/full", example(10)).ok());
}

TEST(Report, NothingAskedForNothingRecorded) {
  RunReport report;
  ASSERT_TRUE(report.begin({}).ok());
  ASSERT_TRUE(trace::start().ok()) << "begin() must not have started a recording";
  trace::stop();
  EXPECT_TRUE(report.write({}).ok());
}

}  // namespace
}  // namespace headrace::cli
