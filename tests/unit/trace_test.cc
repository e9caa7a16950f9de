// The recorder never loses events silently, whatever threads do at the same time. The bottleneck that a trace reports
// is right for timelines with a known bottleneck.
#include "base/trace.h"

#include <gtest/gtest.h>
#include <headrace/trace.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/range_sink.h"
#include "support/alloc_counter.h"

namespace headrace::trace {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

const StageTotals& of(const std::array<StageTotals, kStageCount>& totals, Stage stage) {
  return totals[static_cast<std::size_t>(stage)];
}

TEST(TraceRecorder, OffByDefaultAndNothingIsKept) {
  { Span span(Stage::kRead, 1); }
  ASSERT_TRUE(start().ok());
  const Trace trace = take().value();
  EXPECT_TRUE(trace.events.empty());
  EXPECT_TRUE(trace.tracks.empty());
  EXPECT_EQ(trace.wall_seconds(), 0);
  EXPECT_NE(trace.bottleneck().value().find("Nothing was recorded"), std::string::npos);
}

TEST(TraceRecorder, KeepsRecordedEvents) {
  ASSERT_TRUE(start().ok());
  EXPECT_EQ(start().code(), Code::kInvalidArgument) << "two recordings at once";
  {
    Span outer(Stage::kPlan);
    Span inner(Stage::kRead, 4096, 7);
    inner.set_bytes(4097);
  }
  { Span wait(WaitFor{Stage::kCopy}); }
  Timer timer(Stage::kDecode, 10);
  EXPECT_GT(timer.stop(), 0);
  const std::uint64_t now = base::now_ns();
  record(Stage::kCopy, now, now + 5, 123, TrackKind::kDevice, 3);
  std::thread([] {
    name_thread("helper");
    Span span(Stage::kWrite, 1);
  }).join();
  const Trace trace = take().value();
  ASSERT_EQ(trace.events.size(), 6u);
  ASSERT_EQ(trace.tracks.size(), 3u);
  EXPECT_EQ(trace.lost_events, 0u);
  EXPECT_EQ(trace.events[0].stage, Stage::kPlan);
  EXPECT_EQ(trace.events[1].stage, Stage::kRead);
  EXPECT_EQ(trace.events[1].bytes, 4097u);
  EXPECT_EQ(trace.events[1].detail, 7u);
  EXPECT_LE(trace.events[1].end_ns, trace.events[0].end_ns);
  EXPECT_EQ(trace.events[2].waits_for, Stage::kCopy);
  EXPECT_EQ(trace.events[3].bytes, 10u);
  EXPECT_EQ(trace.tracks[trace.events[4].track].kind, TrackKind::kDevice);
  EXPECT_EQ(trace.events[4].end_ns - trace.events[4].start_ns, 5u);
  EXPECT_EQ(trace.tracks[trace.events[5].track].name.substr(0, 7), "helper ");

  ASSERT_TRUE(start().ok());
  EXPECT_TRUE(take().value().events.empty()) << "a new recording begins empty";
}

TEST(TraceRecorder, BackgroundRegistrationIsNotPartOfTheWork) {
  ASSERT_TRUE(start().ok());
  const std::uint64_t now = base::now_ns();
  record(Stage::kRegister, now, now + 50 * kMs, 1, TrackKind::kIo);
  record(Stage::kRead, now + kMs, now + 10 * kMs, 1, TrackKind::kIo);
  record(Stage::kRegister, now + 11 * kMs, now + 12 * kMs, 1, TrackKind::kIo);
  const Trace trace = take().value();
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].end_ns, now + 10 * kMs);
  EXPECT_EQ(trace.events[1].end_ns, now + 10 * kMs);
  ASSERT_TRUE(start().ok());
  record(Stage::kRegister, now + 50 * kMs, now + 60 * kMs, 1, TrackKind::kIo);
  const Trace alone = take().value();
  EXPECT_EQ(alone.end_ns(), alone.events.empty() ? alone.begin_ns() : now + 60 * kMs);
}

TEST(TraceRecorder, AWaitIsRecordedWhenTheThreadComesBackToTheSameOwner) {
  ASSERT_TRUE(start().ok());
  leave_waiting(Stage::kRead, 1);
  returned_to(2);
  returned_to(1);  // discarded: the thread was elsewhere in between
  leave_waiting(Stage::kCopy, 1);
  returned_to(1);
  const Trace trace = take().value();
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].stage, Stage::kWait);
  EXPECT_EQ(trace.events[0].waits_for, Stage::kCopy);
}

TEST(TraceRecorder, AFullRingKeepsTheLatestAndCountsTheRest) {
  constexpr std::uint64_t kMany = 70'000;
  ASSERT_TRUE(start().ok());
  const std::uint64_t now = base::now_ns();
  for (std::uint64_t i = 0; i < kMany; ++i) record(Stage::kRead, now + 10 * i, now + 10 * i + 5, i);
  const Trace trace = take().value();
  ASSERT_FALSE(trace.events.empty());
  EXPECT_EQ(trace.events.size() + trace.lost_events, kMany);
  EXPECT_EQ(trace.events.back().bytes, kMany - 1);
  EXPECT_EQ(trace.begin_ns(), trace.events.front().end_ns) << "events before the loss are incomplete";
}

// Four threads record while a fifth takes the events: each event is complete, and those of a thread are in order.
TEST(TraceRecorder, TakingWhileThreadsWriteGivesWholeEvents) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&end] {
      for (std::uint64_t i = 1; !end; ++i) {
        const std::uint64_t now = base::now_ns();
        record(Stage::kDecode, now, now + 77, now ^ 77, TrackKind::kThread, static_cast<std::uint32_t>(now));
      }
    });
  }
  std::size_t seen = 0;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(start().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const Trace trace = take().value();
    seen += trace.events.size();
    for (const SpanRecord& event : trace.events) {
      if (event.end_ns - event.start_ns != 77) continue;  // began before the recording, so it was cut
      ASSERT_EQ(event.bytes, event.start_ns ^ 77);
      ASSERT_EQ(event.detail, static_cast<std::uint32_t>(event.start_ns));
    }
  }
  end = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GT(seen, 1000u);
}

TEST(TraceRecorder, NothingIsAllocatedAfterTheFirstSpan) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  ASSERT_TRUE(start().ok());
  { Span span(Stage::kRead); }
  const std::uint64_t before = support::thread_allocs().allocations;
  for (int i = 0; i < 1000; ++i) {
    Span span(Stage::kRead, 1);
    Timer timer(Stage::kDecode);
    record(Stage::kCopy, 1, 2, 3, TrackKind::kDevice);
  }
  EXPECT_EQ(support::thread_allocs().allocations, before);
  stop();
}

int g_depth = 0, g_ranges = 0;
std::uint64_t g_range_bytes = 0;

TEST(TraceRecorder, ARangeSinkSeesEachBeginAndEnd) {
  static const RangeSink sink{[](Stage, std::uint64_t bytes) noexcept {
                                ++g_depth;
                                ++g_ranges;
                                g_range_bytes += bytes;
                              },
                              []() noexcept { --g_depth; }};
  set_range_sink(nullptr);
  { Span span(Stage::kRead, 1); }
  EXPECT_EQ(g_ranges, 0);
  set_range_sink(&sink);
  {
    Span span(Stage::kRead, 2);
    EXPECT_EQ(g_depth, 1);
    Timer timer(Stage::kDecode, 3);
    EXPECT_EQ(g_depth, 2);
    (void)timer.stop();
    EXPECT_EQ(g_depth, 1);
  }
  EXPECT_EQ(g_depth, 0);
  EXPECT_EQ(g_ranges, 2);
  EXPECT_EQ(g_range_bytes, 5u);
  ASSERT_TRUE(start().ok());
  EXPECT_TRUE(take().value().events.empty()) << "a sink alone records nothing";
}

// Timelines written by hand, in milliseconds.
class TraceTotals : public ::testing::Test {
 protected:
  void SetUp() override {
    trace_.tracks = {{TrackKind::kIo, "I/O"},
                     {TrackKind::kDevice, "device"},
                     {TrackKind::kThread, "worker 1"},
                     {TrackKind::kThread, "worker 2"}};
  }
  void add(std::uint32_t track, Stage stage, std::uint64_t begin, std::uint64_t end, Stage waits_for = Stage::kWait) {
    trace_.events.push_back({stage, waits_for, track, 0, begin * kMs, end * kMs, 0});
  }
  std::array<StageTotals, kStageCount> totals() { return trace_.totals().value(); }
  std::string sentence() { return trace_.bottleneck().value(); }
  Trace trace_;
};

TEST_F(TraceTotals, BusyTimeIsTheUnionAndSecondsAreTheSum) {
  add(2, Stage::kDecode, 0, 6);
  add(3, Stage::kDecode, 4, 10);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kDecode).busy_seconds, 0.010);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kDecode).seconds, 0.012);
  EXPECT_DOUBLE_EQ(trace_.wall_seconds(), 0.010);
  EXPECT_EQ(sentence(),
            "The bottleneck is decode: threads worked in it or waited for it for 100% of 10 ms; busy share of each "
            "stage: decode 100%.");
}

TEST_F(TraceTotals, ANestedSpanIsTakenOutOfTheOneAroundIt) {
  add(2, Stage::kPlan, 0, 10);
  add(2, Stage::kRead, 1, 9);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kPlan).limiting_seconds, 0.002);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kRead).limiting_seconds, 0.008);
  EXPECT_EQ(sentence().substr(0, 28), "The bottleneck is read: thre");
}

// Both the engine and the device copy are busy all the time; the threads wait for the engine.
TEST_F(TraceTotals, TheStageThatThreadsWaitForIsTheLimit) {
  add(0, Stage::kRead, 0, 100);
  add(1, Stage::kCopy, 0, 100);
  add(2, Stage::kDecode, 0, 10);
  add(2, Stage::kWait, 10, 100, Stage::kRead);
  add(3, Stage::kWait, 0, 100);
  EXPECT_NE(sentence().find("The bottleneck is read: threads worked in it or waited for it for 90%"), std::string::npos)
      << sentence();
}

// The engine's thread registers memory before it reads. Waiting for reads that have not begun does not count as
// limiting.
TEST_F(TraceTotals, WaitingForAnIdleStageDoesNotCount) {
  add(2, Stage::kWait, 0, 100, Stage::kRead);
  add(3, Stage::kRegister, 0, 90);
  add(0, Stage::kRead, 90, 100);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kRegister).limiting_seconds, 0.090);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kRead).limiting_seconds, 0.010);
}

TEST_F(TraceTotals, WithoutThreadsTheStageInFlightIsTheLimit) {
  add(0, Stage::kRead, 0, 30);
  add(1, Stage::kCopy, 20, 100);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kRead).limiting_seconds, 0.025);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kCopy).limiting_seconds, 0.075);
}

TEST_F(TraceTotals, TwoOfEqualWeightAreBothNamed) {
  add(2, Stage::kRead, 0, 50);
  add(2, Stage::kDecode, 50, 100);
  EXPECT_EQ(sentence().substr(0, 60), "No single bottleneck: read (50%) and decode (50%) share most");
}

TEST_F(TraceTotals, TimeOutsideTheStagesIsUnattributed) {
  add(2, Stage::kRead, 0, 10);
  add(2, Stage::kDecode, 95, 100);
  EXPECT_NE(sentence().find("account for only 15%"), std::string::npos) << sentence();
}

TEST_F(TraceTotals, EventsBeforeALossAreLeftOut) {
  add(2, Stage::kPlan, 0, 50);
  add(2, Stage::kDecode, 50, 100);
  trace_.complete_from_ns = 60 * kMs;
  EXPECT_DOUBLE_EQ(trace_.wall_seconds(), 0.040);
  EXPECT_EQ(of(totals(), Stage::kPlan).spans, 0u);
  EXPECT_DOUBLE_EQ(of(totals(), Stage::kDecode).seconds, 0.040);
}

TEST_F(TraceTotals, ALaneThatDoesNotExistIsIgnored) {
  add(99, Stage::kRead, 0, 10);
  EXPECT_EQ(of(totals(), Stage::kRead).spans, 0u);
}

}  // namespace
}  // namespace headrace::trace
