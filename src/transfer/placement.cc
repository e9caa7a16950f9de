#include "transfer/placement.h"

#include <algorithm>

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kFirstGpu = 8;  // waves of the device before the CPU is tried
constexpr unsigned kTrialWaves = 2;
constexpr std::uint64_t kWarmUp = 1;  // waves of the device that tell nothing: kernels are loaded, slabs are made
constexpr double kTrialShare = 0.02;  // of the time goes into trying the slower kind again
constexpr double kHysteresis = 1.03;  // so much faster must the CPU be
constexpr double kRememberedWaves = 16;

WaveKind other(WaveKind kind) { return kind == WaveKind::kGpu ? WaveKind::kCpu : WaveKind::kGpu; }

}  // namespace

double PlacementPolicy::rate_locked(WaveKind kind) const {
  const Seen& seen = seen_[static_cast<std::size_t>(kind)];
  return seen.seconds > 0 ? seen.bytes / seen.seconds : 0;
}

double PlacementPolicy::rate(WaveKind kind) const {
  std::lock_guard lock(mutex_);
  return rate_locked(kind);
}

WaveKind PlacementPolicy::choose_locked() {
  const double gpu = rate_locked(WaveKind::kGpu), cpu = rate_locked(WaveKind::kCpu);
  if (of(WaveKind::kGpu).begun < kFirstGpu || gpu == 0) return WaveKind::kGpu;
  if (of(WaveKind::kCpu).begun < kTrialWaves) return WaveKind::kCpu;
  if (cpu == 0) return WaveKind::kGpu;  // its trial is under way
  const WaveKind better = cpu > gpu * kHysteresis ? WaveKind::kCpu : WaveKind::kGpu;
  if (trial_left_ == 0) {
    // As long as a trial is expected to take, at the rate last seen.
    const WaveKind slower = other(better);
    const Seen& seen = of(slower);
    const double wave_seconds = seen.seconds / std::clamp(static_cast<double>(seen.ended), 1.0, kRememberedWaves);
    if (trial_seconds_ + kTrialWaves * wave_seconds < kTrialShare * total_seconds_) trial_left_ = kTrialWaves;
  }
  if (trial_left_ == 0) return better;
  --trial_left_;
  return other(better);
}

WaveKind PlacementPolicy::begin(std::uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  const WaveKind kind = choose_locked();
  if (in_flight_++ == 0) last_end_ns_ = now_ns;
  ++of(kind).begun;
  return kind;
}

void PlacementPolicy::end(WaveKind kind, std::uint64_t bytes, std::uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (in_flight_ > 0) --in_flight_;
  const double seconds = now_ns > last_end_ns_ ? static_cast<double>(now_ns - last_end_ns_) * 1e-9 : 0;
  last_end_ns_ = std::max(last_end_ns_, now_ns);
  Seen& seen = of(kind);
  if (bytes == 0) {
    --seen.begun;
    return;
  }
  ++seen.ended;
  if (kind == WaveKind::kGpu && seen.ended <= kWarmUp) return;
  const double gpu = rate_locked(WaveKind::kGpu), cpu = rate_locked(WaveKind::kCpu);
  if (gpu > 0 && cpu > 0 && rate_locked(kind) < rate_locked(other(kind))) trial_seconds_ += seconds;
  total_seconds_ += seconds;
  const double kept = static_cast<double>(seen.ended) > kRememberedWaves ? 1 - 1 / kRememberedWaves : 1;
  seen.seconds = seen.seconds * kept + seconds;
  seen.bytes = seen.bytes * kept + static_cast<double>(bytes);
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
