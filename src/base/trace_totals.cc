// Analyses a trace: how long each stage was busy, and which one limited the rest (docs/design/trace.md).
#include <headrace/trace.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

namespace headrace::trace {
namespace {

// What a span shows about its stage: work is in flight, a thread works in it, or a thread waits for it.
enum Evidence : std::uint8_t { kInFlight, kWorks, kWaits, kEvidenceCount };

struct Interval {
  std::uint64_t begin = 0, end = 0;
  std::size_t stage = 0;
  Evidence evidence = kWorks;
};

constexpr std::size_t index_of(Stage stage) { return static_cast<std::size_t>(stage); }
constexpr std::size_t kNoStage = kStageCount;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Cuts nested spans of a thread out of the enclosing ones, so that each instant belongs to the innermost span.
void flatten(std::vector<Interval>& spans, std::vector<Interval>& out) {
  std::sort(spans.begin(), spans.end(), [](const Interval& a, const Interval& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Interval> open;
  std::uint64_t at = 0;
  const auto emit = [&](const Interval& span, std::uint64_t until) {
    if (until > at && span.stage != kNoStage) out.push_back({at, until, span.stage, span.evidence});
    at = std::max(at, until);
  };
  const auto close_until = [&](std::uint64_t time) {
    while (!open.empty() && open.back().end <= time) {
      emit(open.back(), open.back().end);
      open.pop_back();
    }
  };
  for (const Interval& span : spans) {
    close_until(span.begin);
    if (!open.empty()) emit(open.back(), span.begin);
    at = std::max(at, span.begin);
    open.push_back(span);
  }
  close_until(~std::uint64_t{0});
}

std::uint64_t union_ns(std::vector<std::pair<std::uint64_t, std::uint64_t>>& spans) {
  std::sort(spans.begin(), spans.end());
  std::uint64_t total = 0, until = 0;
  for (const auto& [begin, end] : spans) {
    if (end <= until) continue;
    total += end - std::max(begin, until);
    until = end;
  }
  return total;
}

struct Edge {
  std::uint64_t at = 0;
  std::size_t stage = 0;
  Evidence evidence = kWorks;
  int change = 0;
};

// Divides every instant among the stages that threads work in or wait for (a wait counts only while something is active
// in that stage). If no thread works or waits, among the stages in flight.
void share_wall_time(const std::vector<Interval>& spans, std::array<StageTotals, kStageCount>& totals) {
  std::vector<Edge> edges;
  edges.reserve(2 * spans.size());
  for (const Interval& span : spans) {
    edges.push_back({span.begin, span.stage, span.evidence, 1});
    edges.push_back({span.end, span.stage, span.evidence, -1});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::array<std::array<int, kEvidenceCount>, kStageCount> active{};
  std::uint64_t at = 0;
  for (const Edge& edge : edges) {
    if (edge.at > at) {
      std::array<int, kStageCount> by_threads{}, in_flight{};
      int threads = 0, flights = 0;
      for (std::size_t s = 0; s < kStageCount; ++s) {
        const auto& now = active[s];
        by_threads[s] = now[kWorks] + (now[kWorks] + now[kInFlight] > 0 ? now[kWaits] : 0);
        in_flight[s] = now[kInFlight];
        threads += by_threads[s];
        flights += in_flight[s];
      }
      const auto& shares = threads > 0 ? by_threads : in_flight;
      const int sum = threads > 0 ? threads : flights;
      for (std::size_t s = 0; s < kStageCount && sum > 0; ++s) {
        totals[s].limiting_seconds += seconds(edge.at - at) * shares[s] / sum;
      }
    }
    at = edge.at;
    active[edge.stage][edge.evidence] += edge.change;
  }
}

std::string percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", whole > 0 ? 100 * part / whole : 0.0);
  return text;
}

std::string duration(double wall) {
  char text[32];
  if (wall >= 1) {
    std::snprintf(text, sizeof text, "%.3g s", wall);
  } else if (wall >= 1e-3) {
    std::snprintf(text, sizeof text, "%.3g ms", wall * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.3g us", wall * 1e6);
  }
  return text;
}

std::string sentence(const std::array<StageTotals, kStageCount>& totals, double wall) {
  if (wall <= 0) return "Nothing was recorded, so there is no bottleneck to name.";
  std::size_t first = kNoStage, second = kNoStage;
  double explained = 0;
  for (std::size_t s = 0; s < kStageCount; ++s) {
    const double part = totals[s].limiting_seconds;
    explained += part;
    if (part <= 0) continue;
    if (first == kNoStage || part > totals[first].limiting_seconds) {
      second = std::exchange(first, s);
    } else if (second == kNoStage || part > totals[second].limiting_seconds) {
      second = s;
    }
  }
  std::string busy;
  for (std::size_t s = 0; s < kStageCount; ++s) {
    if (totals[s].spans == 0 || s == index_of(Stage::kWait)) continue;
    busy += (busy.empty() ? "" : ", ") + std::string(stage_name(static_cast<Stage>(s))) + " " +
            percent(totals[s].busy_seconds, wall);
  }
  if (busy.empty()) busy = "none";
  const auto share = [&](std::size_t s) {
    return std::string(stage_name(static_cast<Stage>(s))) + " (" + percent(totals[s].limiting_seconds, wall) + ")";
  };
  const std::string ending = " of " + duration(wall) + "; busy share of each stage: " + busy + ".";
  if (first == kNoStage || explained < 0.5 * wall) {
    return "No stage is the bottleneck: recorded stages account for only " + percent(explained, wall) + ending;
  }
  if (second != kNoStage && totals[second].limiting_seconds >= 0.8 * totals[first].limiting_seconds) {
    return "No single bottleneck: " + share(first) + " and " + share(second) + " share most" + ending;
  }
  return "The bottleneck is " + std::string(stage_name(static_cast<Stage>(first))) +
         ": threads worked in it or waited for it for " + percent(totals[first].limiting_seconds, wall) + ending;
}

}  // namespace

std::uint64_t Trace::begin_ns() const noexcept {
  return events.empty() ? complete_from_ns : std::max(events.front().start_ns, complete_from_ns);
}

std::uint64_t Trace::end_ns() const noexcept {
  std::uint64_t end = begin_ns();
  for (const SpanRecord& event : events) end = std::max(end, event.end_ns);
  return end;
}

double Trace::wall_seconds() const noexcept { return seconds(end_ns() - begin_ns()); }

Result<std::array<StageTotals, kStageCount>> Trace::totals() const {
  try {
    std::array<StageTotals, kStageCount> out{};
    std::array<std::vector<std::pair<std::uint64_t, std::uint64_t>>, kStageCount> busy;
    std::vector<std::vector<Interval>> by_thread(tracks.size());
    std::vector<Interval> spans;
    const std::uint64_t begin_of_trace = begin_ns();
    for (const SpanRecord& event : events) {
      if (event.end_ns < begin_of_trace || event.track >= tracks.size()) continue;
      const std::uint64_t begin = std::max(event.start_ns, begin_of_trace);
      StageTotals& total = out[index_of(event.stage)];
      ++total.spans;
      total.bytes += event.bytes;
      total.seconds += seconds(event.end_ns - begin);
      busy[index_of(event.stage)].emplace_back(begin, event.end_ns);
      Interval span{begin, event.end_ns, index_of(event.stage), kWorks};
      if (event.stage == Stage::kWait) {
        span.stage = event.waits_for == Stage::kWait ? kNoStage : index_of(event.waits_for);
        span.evidence = kWaits;
      }
      if (tracks[event.track].kind == TrackKind::kThread) {
        by_thread[event.track].push_back(span);
      } else if (span.stage != kNoStage) {
        span.evidence = kInFlight;
        spans.push_back(span);
      }
    }
    for (std::size_t s = 0; s < kStageCount; ++s) out[s].busy_seconds = seconds(union_ns(busy[s]));
    for (std::vector<Interval>& thread : by_thread) flatten(thread, spans);
    share_wall_time(spans, out);
    return out;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<std::string> Trace::bottleneck() const {
  HEADRACE_TRY_ASSIGN(const auto stages, totals());
  try {
    return sentence(stages, wall_seconds());
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::trace
