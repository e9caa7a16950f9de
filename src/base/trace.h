// Recording of the stages of reads and writes as spans (headrace/trace.h).
//
//   trace::Span span(trace::Stage::kRead, bytes);                        this thread, until the end of the scope
//   trace::Timer timer(trace::Stage::kDecode, bytes); ... timer.stop();  the same, and also returns the seconds
//   trace::Span span(trace::WaitFor{trace::Stage::kCopy});               this thread waits for a stage
//   trace::record(trace::Stage::kRead, start, end, bytes, TrackKind::kIo) something that happened elsewhere
//
// Not recording, each costs one relaxed load and a branch (bench/micro/trace_bench.cc). While recording, a span takes
// two clock readings and four stores into the thread's own ring: no lock, and no allocation after the
// thread's first span.
//
// Threads: everything from any thread; a Span or Timer must end on the thread that created it.
#pragma once

#include <headrace/trace.h>

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace headrace::trace {

inline constexpr std::uint32_t kRecording = 1, kRanges = 2;
inline std::atomic<std::uint32_t> g_flags{0};

inline bool recording() noexcept { return (g_flags.load(std::memory_order_relaxed) & kRecording) != 0; }

// Names this thread's track; a number is appended. `name` is not copied and must be a literal.
void name_thread(const char* name) noexcept;

namespace detail {
void append(const SpanRecord& event, TrackKind track) noexcept;
void begin_range(Stage stage, std::uint64_t bytes) noexcept;
void end_range() noexcept;
}  // namespace detail

inline void record(Stage stage, std::uint64_t start_ns, std::uint64_t end_ns, std::uint64_t bytes,
                   TrackKind track = TrackKind::kThread, std::uint32_t detail_id = 0) noexcept {
  if (!recording()) return;
  detail::append({stage, Stage::kWait, 0, detail_id, start_ns, end_ns, bytes}, track);
}

struct WaitFor {
  Stage stage;
};

class Span {
 public:
  explicit Span(Stage stage, std::uint64_t bytes = 0, std::uint32_t detail_id = 0) noexcept
      : flags_(g_flags.load(std::memory_order_relaxed)), event_{stage, Stage::kWait, 0, detail_id, 0, 0, bytes} {
    if (flags_ != 0) [[unlikely]]
      begin();
  }
  explicit Span(WaitFor wait) noexcept : Span(Stage::kWait) { event_.waits_for = wait.stage; }
  ~Span() {
    if (flags_ != 0) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  void set_bytes(std::uint64_t bytes) noexcept { event_.bytes = bytes; }

 private:
  void begin() noexcept {
    event_.start_ns = base::now_ns();
    if ((flags_ & kRanges) != 0) detail::begin_range(event_.stage, event_.bytes);
  }
  void end() noexcept {
    if ((flags_ & kRanges) != 0) detail::end_range();
    if ((flags_ & kRecording) == 0) return;
    event_.end_ns = base::now_ns();
    detail::append(event_, TrackKind::kThread);
  }

  const std::uint32_t flags_;
  SpanRecord event_;
};

// A span whose duration is needed for Stats even when nothing is recorded.
class Timer {
 public:
  explicit Timer(Stage stage, std::uint64_t bytes = 0) noexcept
      : flags_(g_flags.load(std::memory_order_relaxed)), stage_(stage), bytes_(bytes), start_ns_(base::now_ns()) {
    if ((flags_ & kRanges) != 0) [[unlikely]]
      detail::begin_range(stage, bytes);
  }
  ~Timer() {
    if (!stopped_) stop();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  std::uint64_t start_ns() const noexcept { return start_ns_; }
  void set_bytes(std::uint64_t bytes) noexcept { bytes_ = bytes; }
  // Returns the seconds since construction. Call at most once.
  double stop() noexcept {
    const std::uint64_t now = base::now_ns();
    stopped_ = true;
    if (flags_ != 0) [[unlikely]] {
      if ((flags_ & kRanges) != 0) detail::end_range();
      record(stage_, start_ns_, now, bytes_);
    }
    return static_cast<double>(now - start_ns_) * 1e-9;
  }

 private:
  const std::uint32_t flags_;
  const Stage stage_;
  bool stopped_ = false;
  std::uint64_t bytes_;
  const std::uint64_t start_ns_;
};

// For a thread that leaves because it has nothing to do and may return by another path. leave_waiting() notes that
// `owner` (a number chosen by the caller, not 0) had no work until `waits_for` progresses (kWait: no particular stage).
// returned_to() records the wait if the thread returns to the same owner.
void leave_waiting(Stage waits_for, std::uint64_t owner) noexcept;
void returned_to(std::uint64_t owner) noexcept;

}  // namespace headrace::trace
