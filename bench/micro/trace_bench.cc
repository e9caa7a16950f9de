// Measures the cost of a span, with recording off and on. `empty` is the loop alone; `clock` is one reading of the
// clock; a recorded span takes two.
#include <benchmark/benchmark.h>

#include "base/trace.h"

namespace {

using namespace headrace;

void empty(benchmark::State& state) {
  std::uint64_t bytes = 0;
  for (auto _ : state) benchmark::DoNotOptimize(++bytes);
}

void clock_reading(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(base::now_ns());
}

void span(benchmark::State& state, bool on) {
  if (on && !trace::start().ok()) return state.SkipWithError("a trace is being recorded");
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    trace::Span span(trace::Stage::kRead, bytes);
    benchmark::DoNotOptimize(++bytes);
  }
  trace::stop();
}

void timer(benchmark::State& state, bool on) {
  if (on && !trace::start().ok()) return state.SkipWithError("a trace is being recorded");
  double seconds = 0;
  for (auto _ : state) {
    trace::Timer timer(trace::Stage::kRead, 4096);
    benchmark::DoNotOptimize(seconds += timer.stop());
  }
  trace::stop();
}

void record(benchmark::State& state, bool on) {
  if (on && !trace::start().ok()) return state.SkipWithError("a trace is being recorded");
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    trace::record(trace::Stage::kRead, 1, 2, bytes, trace::TrackKind::kIo);
    benchmark::DoNotOptimize(++bytes);
  }
  trace::stop();
}

BENCHMARK(empty);
BENCHMARK(clock_reading);
BENCHMARK_CAPTURE(span, off, false);
BENCHMARK_CAPTURE(span, on, true);
BENCHMARK_CAPTURE(timer, off, false);
BENCHMARK_CAPTURE(timer, on, true);
BENCHMARK_CAPTURE(record, off, false);
BENCHMARK_CAPTURE(record, on, true);

}  // namespace

BENCHMARK_MAIN();
