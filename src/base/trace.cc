#include "base/trace.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/range_sink.h"

namespace headrace::trace {
namespace {

constexpr std::uint64_t kRingEvents = 65536;
constexpr std::uint64_t kWords = 4;  // per event

// The spans of one thread. The thread writes and take() reads, without waiting for each other: the words are atomics,
// and `begun` tells the reader which of the words it copied were being overwritten.
//
// Rings are never freed: a thread that ends leaves its ring for the next new thread.
struct Ring {
  std::unique_ptr<std::atomic<std::uint64_t>[]> words { new std::atomic<std::uint64_t>[ kWords * kRingEvents ] };
  std::atomic<std::uint64_t> begun{0}, done{0};  // number of events ever written
  std::atomic<std::uint64_t> first{0};           // first event of the current recording
  std::atomic<bool> taken{true};
  std::atomic<const char*> name{nullptr};
  std::uint32_t number = 0;
  Ring* next = nullptr;
};

std::atomic<Ring*> g_rings{nullptr};
std::atomic<std::uint32_t> g_ring_count{0};
std::atomic<std::uint64_t> g_unrecorded{0};
std::atomic<std::uint64_t> g_start_ns{0};
std::atomic<const RangeSink*> g_sink{nullptr};

struct ThreadState {
  Ring* ring = nullptr;
  const char* name = "thread";
  // leave_waiting()
  std::uint64_t owner = 0;
  Stage waits_for = Stage::kWait;
  std::uint64_t left_ns = 0;
};
thread_local ThreadState t_state;

// Kept apart from ThreadState, and first touched when a thread records: registering a thread's destructor allocates
// with malloc, and glibc aborts if that fails.
struct RingReturn {
  Ring* ring = nullptr;
  ~RingReturn() {
    if (ring != nullptr) ring->taken.store(false, std::memory_order_release);
  }
};
thread_local RingReturn t_return;

Ring* take_ring(ThreadState& state) noexcept {
  Ring* ring = g_rings.load(std::memory_order_acquire);
  while (ring != nullptr && ring->taken.exchange(true, std::memory_order_acquire)) ring = ring->next;
  if (ring == nullptr) {
    try {
      ring = new Ring;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    ring->number = g_ring_count.fetch_add(1, std::memory_order_relaxed) + 1;
    ring->next = g_rings.load(std::memory_order_relaxed);
    while (!g_rings.compare_exchange_weak(ring->next, ring, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  ring->name.store(state.name, std::memory_order_relaxed);
  state.ring = ring;
  t_return.ring = ring;
  return ring;
}

std::uint64_t pack(const SpanRecord& event, TrackKind track) noexcept {
  return static_cast<std::uint64_t>(event.stage) | static_cast<std::uint64_t>(event.waits_for) << 8 |
         static_cast<std::uint64_t>(track) << 16 | std::uint64_t{event.detail} << 32;
}

// Adds the ring's events of the current recording to `trace`.
void collect(Ring& ring, std::uint64_t start_ns, Trace& trace, const std::uint32_t (&shared_lanes)[3]) {
  const std::uint64_t done = ring.done.load(std::memory_order_acquire);
  const std::uint64_t first = ring.first.load(std::memory_order_relaxed);
  std::uint64_t from = std::max(first, done - std::min(done, kRingEvents));
  const auto track = static_cast<std::uint32_t>(trace.tracks.size());
  const std::size_t before = trace.events.size();
  bool used = false;
  for (std::uint64_t i = from; i < done; ++i) {
    const auto* words = &ring.words[(i % kRingEvents) * kWords];
    SpanRecord event;
    event.start_ns = std::max(words[0].load(std::memory_order_acquire), start_ns);
    event.end_ns = std::max(words[1].load(std::memory_order_acquire), event.start_ns);
    event.bytes = words[2].load(std::memory_order_acquire);
    const std::uint64_t about = words[3].load(std::memory_order_acquire);
    event.stage = static_cast<Stage>(about & 0xff);
    event.waits_for = static_cast<Stage>(about >> 8 & 0xff);
    const auto kind = static_cast<TrackKind>(about >> 16 & 0xff);
    event.detail = static_cast<std::uint32_t>(about >> 32);
    event.track = kind == TrackKind::kThread ? track : shared_lanes[static_cast<std::size_t>(kind)];
    used = used || kind == TrackKind::kThread;
    trace.events.push_back(event);
  }
  // A thread that was recording when stop() was called may have written another event or more since.
  const std::uint64_t begun = ring.begun.load(std::memory_order_relaxed);
  const std::uint64_t intact = begun - std::min(begun, kRingEvents);
  if (intact > from) {
    const auto torn = static_cast<std::ptrdiff_t>(std::min(intact, done) - from);
    const auto at = trace.events.begin() + static_cast<std::ptrdiff_t>(before);
    trace.events.erase(at, at + torn);
    from = std::min(intact, done);
  }
  if (from > first) {
    trace.lost_events += from - first;
    // Spans are written when they end, so from the end of the oldest kept span on, the thread's record is complete.
    if (before < trace.events.size()) {
      trace.complete_from_ns = std::max(trace.complete_from_ns, trace.events[before].end_ns);
    }
  }
  if (used) {
    const char* name = ring.name.load(std::memory_order_relaxed);
    trace.tracks.push_back({TrackKind::kThread, std::string(name) + " " + std::to_string(ring.number)});
  }
}

// Removes lanes without events.
void drop_unused_lanes(Trace& trace) {
  std::vector<std::uint32_t> moved(trace.tracks.size(), 0);
  for (const SpanRecord& event : trace.events) moved[event.track] = 1;
  std::vector<Track> kept;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (moved[i] == 0) continue;
    moved[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(trace.tracks[i]));
  }
  for (SpanRecord& event : trace.events) event.track = moved[event.track];
  trace.tracks = std::move(kept);
}

}  // namespace

namespace detail {

void append(const SpanRecord& event, TrackKind track) noexcept {
  ThreadState& state = t_state;
  Ring* ring = state.ring != nullptr ? state.ring : take_ring(state);
  if (ring == nullptr) {
    g_unrecorded.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t at = ring->done.load(std::memory_order_relaxed);
  ring->begun.store(at + 1, std::memory_order_relaxed);
  auto* words = &ring->words[(at % kRingEvents) * kWords];
  // Release: a reader that sees one of these words also sees `begun`.
  words[0].store(event.start_ns, std::memory_order_release);
  words[1].store(event.end_ns, std::memory_order_release);
  words[2].store(event.bytes, std::memory_order_release);
  words[3].store(pack(event, track), std::memory_order_release);
  ring->done.store(at + 1, std::memory_order_release);
}

void begin_range(Stage stage, std::uint64_t bytes) noexcept {
  g_sink.load(std::memory_order_acquire)->begin(stage, bytes);
}
void end_range() noexcept { g_sink.load(std::memory_order_acquire)->end(); }

}  // namespace detail

void name_thread(const char* name) noexcept { t_state.name = name; }

void set_range_sink(const RangeSink* sink) noexcept {
  if (sink == nullptr) return;
  g_sink.store(sink, std::memory_order_release);
  g_flags.fetch_or(kRanges, std::memory_order_release);
}

void leave_waiting(Stage waits_for, std::uint64_t owner) noexcept {
  if (!recording()) return;
  t_state.owner = owner;
  t_state.waits_for = waits_for;
  t_state.left_ns = base::now_ns();
}

void returned_to(std::uint64_t owner) noexcept {
  if (!recording() || t_state.owner == 0) return;
  if (t_state.owner == owner) {
    detail::append({Stage::kWait, t_state.waits_for, 0, 0, t_state.left_ns, base::now_ns(), 0}, TrackKind::kThread);
  }
  t_state.owner = 0;
}

Status start() {
  if (recording()) {
    return Status(Code::kInvalidArgument, Layer::kApi, "a trace is already being recorded; call take() first");
  }
  for (Ring* ring = g_rings.load(std::memory_order_acquire); ring != nullptr; ring = ring->next) {
    ring->first.store(ring->done.load(std::memory_order_acquire), std::memory_order_relaxed);
  }
  g_unrecorded.store(0, std::memory_order_relaxed);
  g_start_ns.store(base::now_ns(), std::memory_order_relaxed);
  g_flags.fetch_or(kRecording, std::memory_order_release);
  return {};
}

void stop() noexcept { g_flags.fetch_and(~kRecording, std::memory_order_release); }

namespace {

// Slabs are registered in parallel with reads, and registration may take longer than the reads that benefit from it.
// That excess must not count as read time.
void end_with_the_work(Trace& trace) {
  std::uint64_t end = 0;
  for (const SpanRecord& event : trace.events) {
    if (event.stage != Stage::kRegister) end = std::max(end, event.end_ns);
  }
  if (end == 0) return;
  std::erase_if(trace.events, [end](const SpanRecord& event) { return event.start_ns > end; });
  for (SpanRecord& event : trace.events) event.end_ns = std::min(event.end_ns, end);
}

}  // namespace

Result<Trace> take() {
  stop();
  try {
    Trace trace;
    trace.lost_events = g_unrecorded.load(std::memory_order_relaxed);
    trace.tracks = {{TrackKind::kIo, "I/O in flight"}, {TrackKind::kDevice, "device"}};
    const std::uint32_t shared_lanes[3] = {0, 0, 1};  // by TrackKind
    std::vector<Ring*> rings;
    for (Ring* ring = g_rings.load(std::memory_order_acquire); ring != nullptr; ring = ring->next) {
      rings.push_back(ring);
    }
    std::sort(rings.begin(), rings.end(), [](const Ring* a, const Ring* b) { return a->number < b->number; });
    for (Ring* ring : rings) collect(*ring, g_start_ns.load(std::memory_order_relaxed), trace, shared_lanes);
    std::stable_sort(trace.events.begin(), trace.events.end(),
                     [](const SpanRecord& a, const SpanRecord& b) { return a.start_ns < b.start_ns; });
    end_with_the_work(trace);
    drop_unused_lanes(trace);
    return trace;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::trace
