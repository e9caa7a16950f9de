// Trace: what every thread, the I/O engine and the device did, span by span, while it was being recorded.
//
// Recording covers the whole process and is off until start(). Each thread keeps its most recent 65,536 spans (2 MiB,
// allocated at its first span); older ones are overwritten and counted as lost.
//
// Threads: start(), stop() and take() one at a time; reads may run meanwhile. A Trace belongs to its caller.
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
  kWait,      // a thread with nothing to do; waits_for says until when
  kCopy,      // bytes over the bus, either way
  kDecode,    // decoded bytes
  kAssemble,  // decoded bytes put in their places; for a device, queueing its work
  kRegister,  // bytes of memory made known to the device
  kWrite,     // bytes written to storage
};
inline constexpr std::size_t kStageCount = 9;

constexpr const char* stage_name(Stage stage) noexcept {
  constexpr const char* kNames[kStageCount] = {"plan",   "open",     "read",     "wait", "copy",
                                               "decode", "assemble", "register", "write"};
  return kNames[static_cast<std::size_t>(stage)];
}

// Spans of a thread nest or follow each other; those of the I/O engine and of the device overlap.
enum class TrackKind : std::uint8_t { kThread, kIo, kDevice };

struct Track {
  TrackKind kind = TrackKind::kThread;
  std::string name;  // "worker 2", "I/O in flight"
};

struct SpanRecord {
  Stage stage = Stage::kPlan;
  Stage waits_for = Stage::kWait;  // of a kWait: the stage that is waited for; kWait itself: not known
  std::uint32_t track = 0;         // index into Trace::tracks
  std::uint32_t detail = 0;        // a small number that tells spans of one stage apart, such as the wave's
  std::uint64_t start_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0;  // of what, the stage says
};

struct StageTotals {
  std::uint64_t spans = 0, bytes = 0;
  double seconds = 0;           // summed over tracks
  double busy_seconds = 0;      // at least one track was in the stage
  double limiting_seconds = 0;  // the stage's part of the wall time: threads were in it or waited for it
};

class HEADRACE_API Trace {
 public:
  std::vector<Track> tracks;
  std::vector<SpanRecord> events;  // by start
  std::uint64_t lost_events = 0;   // overwritten, or made when there was no memory for them

  // From the first span to the last; where spans were lost, from the time since which none was.
  std::uint64_t begin_ns() const noexcept;
  std::uint64_t end_ns() const noexcept;
  double wall_seconds() const noexcept;
  // By Stage. docs/design/trace.md says how limiting_seconds are counted, and where they mislead.
  Result<std::array<StageTotals, kStageCount>> totals() const;
  // One sentence that names the stage which held the rest back, with the busy share of each.
  Result<std::string> bottleneck() const;

  std::uint64_t complete_from_ns = 0;  // no span that ended later was lost
};

// kInvalidArgument while a recording runs. Forgets the recording before.
HEADRACE_API Status start();
HEADRACE_API void stop() noexcept;
// Stops, and gives every span since start(). A span still open then is left out.
HEADRACE_API Result<Trace> take();

}  // namespace headrace::trace
