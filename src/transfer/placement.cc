#include "transfer/placement.h"

#include <algorithm>

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kTurnWaves = 8;  // at least; and three times as many as are under way
constexpr std::uint64_t kWarmUp = 4;     // waves of a kind that tell nothing: kernels are loaded, memory is made
constexpr std::uint64_t kEvidence = 4;   // counted waves before a rate is believed
constexpr double kTrialShare = 0.02;     // of the time goes into trying the slower kind again
constexpr double kFallen = 0.7;          // of the rate it once had: then more of the time may go into a trial
constexpr double kFallenShare = 0.1;
constexpr double kHysteresis = 1.03;  // so much faster must the CPU be

WaveKind other(WaveKind kind) { return kind == WaveKind::kGpu ? WaveKind::kCpu : WaveKind::kGpu; }

}  // namespace

double PlacementPolicy::Seen::turn_rate(std::uint64_t most_waves) const {
  if (turn_counted < kEvidence || seconds <= 0 || latencies <= 0) return 0;
  return std::min(bytes / seconds, static_cast<double>(most_waves) * bytes / latencies);
}

double PlacementPolicy::Seen::rate(std::uint64_t most_waves) const {
  return std::max(turn_rate(most_waves), *std::max_element(turns.begin(), turns.end()));
}

// A turn of too few waves goes on when the kind has its next one.
void PlacementPolicy::Seen::end_turn(std::uint64_t most_waves) {
  const double rate = turn_rate(most_waves);
  if (rate == 0) return;
  turns[next_turn] = rate;
  next_turn = (next_turn + 1) % kTurns;
  turn_counted = 0;
  seconds = bytes = latencies = 0;
}

double PlacementPolicy::rate(WaveKind kind) const {
  std::lock_guard lock(mutex_);
  return rate_locked(kind);
}

// The kind of the turn that begins now.
WaveKind PlacementPolicy::choose_locked() {
  const double gpu = rate_locked(WaveKind::kGpu), cpu = rate_locked(WaveKind::kCpu);
  if (gpu == 0) return WaveKind::kGpu;
  if (cpu == 0) return WaveKind::kCpu;
  const WaveKind better = cpu > gpu * kHysteresis ? WaveKind::kCpu : WaveKind::kGpu;
  // A trial may cost as long as one took at the rate last seen.
  const Seen& slower = of(other(better));
  const double wave_seconds = static_cast<double>(slower.wave_bytes) / rate_locked(other(better));
  const double turn_seconds = static_cast<double>(std::max(kTurnWaves, 3 * most_in_flight_)) * wave_seconds;
  // Something has changed when the better one is much slower than it was: that is worth a trial of its own.
  const double now = rate_locked(better);
  const double share = now < kFallen * settled_rate_ ? kFallenShare : kTrialShare;
  if (trial_seconds_ + turn_seconds >= share * total_seconds_) {
    settled_rate_ = std::max(settled_rate_, now);
    return better;
  }
  settled_rate_ = now;
  return other(better);
}

WaveKind PlacementPolicy::begin(std::uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  const bool idle = of(WaveKind::kGpu).in_flight + of(WaveKind::kCpu).in_flight == 0;
  if (idle || turn_begun_ >= std::max(kTurnWaves, 3 * most_in_flight_)) {
    of(turn_).end_turn(most_in_flight_);
    const WaveKind next = choose_locked();
    if (idle || next != turn_) {
      alone_since_ns_ = of(other(next)).in_flight == 0 ? now_ns : 0;
      last_end_ns_ = now_ns;
    }
    turn_ = next;
    turn_begun_ = 0;
  }
  ++turn_begun_;
  ++of(turn_).in_flight;
  most_in_flight_ = std::max(most_in_flight_, of(WaveKind::kGpu).in_flight + of(WaveKind::kCpu).in_flight);
  return turn_;
}

void PlacementPolicy::end(WaveKind kind, std::uint64_t begun_ns, std::uint64_t bytes, std::uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  Seen& seen = of(kind);
  if (seen.in_flight > 0) --seen.in_flight;
  const double seconds = now_ns > last_end_ns_ ? static_cast<double>(now_ns - last_end_ns_) * 1e-9 : 0;
  last_end_ns_ = std::max(last_end_ns_, now_ns);
  if (kind != turn_) {
    if (seen.in_flight == 0) alone_since_ns_ = now_ns;
    return;
  }
  if (bytes == 0) return;
  if (++seen.ended <= kWarmUp || alone_since_ns_ == 0 || begun_ns < alone_since_ns_) return;
  const double gpu = rate_locked(WaveKind::kGpu), cpu = rate_locked(WaveKind::kCpu);
  if (gpu > 0 && cpu > 0 && rate_locked(kind) < rate_locked(other(kind))) trial_seconds_ += seconds;
  total_seconds_ += seconds;
  ++seen.turn_counted;
  seen.wave_bytes = bytes;
  seen.seconds += seconds;
  seen.latencies += static_cast<double>(now_ns - std::min(begun_ns, now_ns)) * 1e-9;
  seen.bytes += static_cast<double>(bytes);
}

std::shared_ptr<PlacementPolicy> PlacementMemory::for_device(const std::string& name) {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.device == name) return entry.policy;
  }
  entries_.push_back({name, std::make_shared<PlacementPolicy>()});
  return entries_.back().policy;
}

}  // namespace headrace::transfer
