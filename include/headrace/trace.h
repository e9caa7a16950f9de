// Trace: a recording of what every thread, the I/O engine and the device did, as spans.
//
// Recording covers the whole process and is off until start(). Each thread keeps its most recent 65,536 spans (2 MiB,
// allocated at its first span). Older ones are overwritten and counted as lost.
//
// Threads: call start(), stop() and take() one at a time; reads may run concurrently. A Trace belongs to its caller.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::trace {

enum class Stage : std::uint8_t {
  kPlan,      // selection to tasks
  kOpen,      // opening objects, handing requests to the engine
  kRead,      // bytes read, alignment included
  kWait,      // an idle thread; waits_for says what it waits for
  kCopy,      // bytes over the bus, either way
  kDecode,    // decoded bytes
  kAssemble,  // decoded bytes put in place; for a device, queueing its work
  kRegister,  // bytes of memory registered with the device
  kWrite,     // bytes written to storage
};
inline constexpr std::size_t kStageCount = 9;

constexpr const char* stage_name(Stage stage) noexcept {
  constexpr const char* kNames[kStageCount] = {"plan",   "open",     "read",     "wait", "copy",
                                               "decode", "assemble", "register", "write"};
  return kNames[static_cast<std::size_t>(stage)];
}

// Spans of a thread nest or follow each other. Spans of the I/O engine and of the device may overlap.
enum class TrackKind : std::uint8_t { kThread, kIo, kDevice };

struct Track {
  TrackKind kind = TrackKind::kThread;
  std::string name;  // "worker 2", "I/O in flight"
};

struct SpanRecord {
  Stage stage = Stage::kPlan;
  Stage waits_for = Stage::kWait;  // of a kWait: the stage that is waited for; kWait: unknown
  std::uint32_t track = 0;         // index into Trace::tracks
  std::uint32_t detail = 0;        // distinguishes spans of one stage, such as the wave's number
  std::uint64_t start_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0;  // meaning depends on the stage
};

struct StageTotals {
  std::uint64_t spans = 0, bytes = 0;
  double seconds = 0;           // summed over tracks
  double busy_seconds = 0;      // at least one track was in the stage
  double limiting_seconds = 0;  // share of the wall time in which threads were in the stage or waited for it
};

class HEADRACE_API Trace {
 public:
  std::vector<Track> tracks;
  std::vector<SpanRecord> events;  // in order of start
  std::uint64_t lost_events = 0;   // overwritten, or dropped because there was no memory for them

  // From the first span to the last. If spans were lost, from the time after which none was lost.
  std::uint64_t begin_ns() const noexcept;
  std::uint64_t end_ns() const noexcept;
  double wall_seconds() const noexcept;
  // Indexed by Stage. docs/design/trace.md explains how limiting_seconds are counted, and where they mislead.
  Result<std::array<StageTotals, kStageCount>> totals() const;
  // One sentence that names the limiting stage, with the busy share of each stage.
  Result<std::string> bottleneck() const;

  std::uint64_t complete_from_ns = 0;  // no span that ended after this was lost
};

// Discards the previous recording. kInvalidArgument while a recording runs.
HEADRACE_API Status start();
HEADRACE_API void stop() noexcept;
// Stops recording and returns all spans since start(). Spans that are still open are left out.
HEADRACE_API Result<Trace> take();

}  // namespace headrace::trace
