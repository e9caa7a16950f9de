#include "transfer/placement/placement.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>

#include "codec/chain.h"
#include "transfer/placement/placement_file.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kTurnWaves = 8;  // at least; and three times as many as are in flight
// First waves of a kind, which are not counted: kernels are loaded, memory is allocated.
constexpr std::uint64_t kWarmUp = 4;
constexpr std::uint64_t kEvidence = 4;  // counted waves before a rate is trusted
constexpr double kTrialShare = 0.02;    // of the time goes into trying the slower kind again
constexpr double kFallen = 0.7;         // of the rate it once had: below that, more of the time may go into a trial
constexpr double kFallenShare = 0.1;
constexpr double kHysteresis = 1.03;  // the CPU must be faster by this factor
constexpr double kLost = 0.7;         // of the other's rate: a trial that is slower than this ends
// As a share of the device's rate: if the bound from the CPU's first wave is below it, no second wave is needed.
constexpr double kHopeless = 0.5;
constexpr double kAlike = 0.7;            // a prior is trusted if the array's own rate is within this factor of it
constexpr std::uint64_t kFirstTurns = 4;  // of a device that maps files, before it loses to the CPU
constexpr std::size_t kMaxKinds = 256;

WaveKind other(WaveKind kind) { return kind == WaveKind::kGpu ? WaveKind::kCpu : WaveKind::kGpu; }

}  // namespace

double PlacementPolicy::Seen::turn_rate(std::uint64_t max_waves) const {
  if (turn_counted < kEvidence || seconds <= 0 || latencies <= 0) return 0;
  return std::min(bytes / seconds, static_cast<double>(max_waves) * bytes / latencies);
}

double PlacementPolicy::Seen::rate(std::uint64_t max_waves) const {
  return std::max(turn_rate(max_waves), *std::max_element(turns.begin(), turns.end()));
}

// A turn of too few waves continues when the kind has its next one.
void PlacementPolicy::Seen::end_turn(std::uint64_t max_waves) {
  const double rate = turn_rate(max_waves);
  if (rate == 0) return;
  turns[turns_ended++ % kTurns] = rate;
  turn_counted = 0;
  seconds = bytes = latencies = 0;
}

PlacementRates PlacementPrior::get() const {
  std::lock_guard lock(mutex_);
  return rates_;
}

void PlacementPrior::set(const PlacementRates& rates) {
  std::lock_guard lock(mutex_);
  rates_ = rates;
  learnt_ = true;
}

bool PlacementPrior::learnt() const {
  std::lock_guard lock(mutex_);
  return learnt_;
}

double PlacementPolicy::rate(WaveKind kind) const {
  std::lock_guard lock(mutex_);
  return measured_locked(kind);
}

// One wave alone may have been slow for a reason of its own.
bool PlacementPolicy::ruled_out_locked() const {
  const double gpu = measured_locked(WaveKind::kGpu);
  if (max_rates_[1] == 0) return max_rates_[0] > 0 && max_rates_[0] < kHopeless * gpu;
  return std::max(max_rates_[0], max_rates_[1]) < gpu;
}

// The measured rates; for a CPU that is ruled out, its upper bound.
PlacementRates PlacementPolicy::own_rates_locked() const {
  PlacementRates rates{measured_locked(WaveKind::kGpu), measured_locked(WaveKind::kCpu)};
  if (rates[1] == 0 && ruled_out_locked()) rates[1] = std::max(max_rates_[0], max_rates_[1]);
  return rates;
}

// The array's own rates; unknown ones are derived from the prior.
PlacementRates PlacementPolicy::estimates_locked() const {
  PlacementRates rates = own_rates_locked();
  if (prior_ == nullptr || (rates[0] > 0 && rates[1] > 0)) return rates;
  const PlacementRates known = prior_->get();
  if (known[0] == 0 || known[1] == 0) return rates;
  if (rates[0] == 0 && rates[1] == 0) return known;
  const std::size_t has = rates[0] > 0 ? 0 : 1;
  const double scale = rates[has] / known[has];
  if (scale >= kAlike && scale <= 1 / kAlike) rates[1 - has] = known[1 - has] * scale;
  return rates;
}

std::uint64_t PlacementPolicy::turn_waves_locked() const { return std::max(kTurnWaves, 3 * max_in_flight_); }

bool PlacementPolicy::turn_is_lost_locked() const {
  if (!trial_) return false;
  if (turn_ == WaveKind::kCpu && ruled_out_locked()) return true;
  const double so_far = seen_[static_cast<std::size_t>(turn_)].turn_rate(max_in_flight_);
  return so_far > 0 && so_far < kLost * measured_locked(other(turn_));
}

// The kind of the turn that begins now.
WaveKind PlacementPolicy::begin_turn_locked(bool more_is_mapped) {
  trial_ = wants_probe_ = false;
  const PlacementRates rates = estimates_locked();
  if (rates[0] > 0 && rates[1] > 0) return settle_locked(rates, more_is_mapped);
  if (rates[0] == 0) return WaveKind::kGpu;
  // A CPU turn that a short read has cut off continues.
  if (open_ || trying_) return try_locked(WaveKind::kCpu);
  wants_probe_ = probes_in_flight_ == 0;
  return WaveKind::kGpu;
}

// The CPU is judged by the waves of its turn, when all of its threads are busy.
WaveKind PlacementPolicy::try_locked(WaveKind kind) {
  trial_ = true;
  if (kind == WaveKind::kGpu || trying_) return kind;
  open_ = false;
  trying_ = true;
  max_rates_ = {};
  return kind;
}

WaveKind PlacementPolicy::settle_locked(const PlacementRates& rates, bool more_is_mapped) {
  trying_ = false;
  const WaveKind better = rates[1] > rates[0] * kHysteresis ? WaveKind::kCpu : WaveKind::kGpu, slower = other(better);
  // A device that maps files is slow until they are registered, which happens when they are read again.
  if (more_is_mapped && better == WaveKind::kCpu && of(WaveKind::kGpu).turns_ended < kFirstTurns) {
    return try_locked(WaveKind::kGpu);
  }
  // If the better one is much slower than it was, something has changed: that is worth a trial of its own.
  const double now = rates[static_cast<std::size_t>(better)];
  const double budget = (now < kFallen * settled_rate_ ? kFallenShare : kTrialShare) * total_seconds_ - trial_seconds_;
  // A trial may cost as much as one at the last measured rate.
  const double wave_bytes = static_cast<double>(std::max(seen_[0].wave_bytes, seen_[1].wave_bytes));
  const double wave_seconds = wave_bytes / rates[static_cast<std::size_t>(slower)];
  if (slower == WaveKind::kCpu && !open_) {
    wants_probe_ = probes_in_flight_ == 0 && (probe_seconds_ > 0 ? probe_seconds_ : wave_seconds) < budget;
  } else if (static_cast<double>(turn_waves_locked()) * wave_seconds < budget) {
    settled_rate_ = now;
    return try_locked(slower);
  }
  settled_rate_ = std::max(settled_rate_, now);
  return better;
}

WaveChoice PlacementPolicy::begin(std::uint64_t now_ns, std::uint64_t mapped_bytes) {
  std::lock_guard lock(mutex_);
  const bool idle = of(WaveKind::kGpu).in_flight + of(WaveKind::kCpu).in_flight == 0;
  if (idle || turn_started_ >= turn_waves_locked() || turn_is_lost_locked()) {
    of(turn_).end_turn(max_in_flight_);
    publish_locked();
    const WaveKind next = begin_turn_locked(idle && mapped_bytes > mapped_bytes_);
    if (idle || next != turn_) {
      alone_since_ns_ = of(other(next)).in_flight == 0 ? now_ns : 0;
      last_end_ns_ = now_ns;
    }
    turn_ = next;
    turn_started_ = 0;
  }
  WaveChoice wave{turn_, std::exchange(wants_probe_, false), trial_};
  if (wave.probe) {
    wave.kind = WaveKind::kCpu;
    alone_since_ns_ = 0;
    ++probes_in_flight_;
  } else {
    ++turn_started_;
  }
  if (wave.kind == WaveKind::kGpu) mapped_bytes_ = mapped_bytes;
  ++of(wave.kind).in_flight;
  max_in_flight_ = std::max(max_in_flight_, of(WaveKind::kGpu).in_flight + of(WaveKind::kCpu).in_flight);
  return wave;
}

void PlacementPolicy::end(WaveChoice wave, std::uint64_t started_ns, std::uint64_t bytes, std::uint64_t now_ns,
                          CpuWork work) {
  std::lock_guard lock(mutex_);
  Seen& seen = of(wave.kind);
  if (seen.in_flight > 0) --seen.in_flight;
  const double seconds = now_ns > last_end_ns_ ? static_cast<double>(now_ns - last_end_ns_) * 1e-9 : 0;
  const double latency = static_cast<double>(now_ns - std::min(started_ns, now_ns)) * 1e-9;
  last_end_ns_ = std::max(last_end_ns_, now_ns);
  if (wave.probe && probes_in_flight_ > 0) --probes_in_flight_;
  if (bytes > 0 && wave.kind == WaveKind::kCpu && (wave.probe || work.thread_rate > 0)) {
    const auto threads = static_cast<double>(std::min(work.threads, work.wave_chunks * max_in_flight_));
    const double most = work.thread_rate > 0 ? work.thread_rate * threads : std::numeric_limits<double>::infinity();
    max_rates_ = {most, max_rates_[0]};
    if (wave.probe) end_probe_locked(latency);
  }
  if (wave.kind != turn_) {
    if (seen.in_flight == 0) alone_since_ns_ = now_ns;
    return;
  }
  if (bytes == 0 || wave.probe) return;
  if (trial_ && measured_locked(wave.kind) < measured_locked(other(wave.kind))) trial_seconds_ += seconds;
  if (++seen.ended <= kWarmUp || alone_since_ns_ == 0 || started_ns < alone_since_ns_) return;
  total_seconds_ += seconds;
  ++seen.turn_counted;
  seen.wave_bytes = bytes;
  seen.seconds += seconds;
  seen.latencies += latency;
  seen.bytes += static_cast<double>(bytes);
}

void PlacementPolicy::end_probe_locked(double seconds) {
  probe_seconds_ = seconds;
  trial_seconds_ += seconds;
  if (ruled_out_locked()) {
    settled_rate_ = measured_locked(WaveKind::kGpu);
  } else if (max_rates_[1] > 0 || max_rates_[0] >= measured_locked(WaveKind::kGpu)) {
    open_ = true;
  }
}

void PlacementPolicy::publish_locked() {
  const PlacementRates rates = own_rates_locked();
  if (prior_ != nullptr && rates[0] > 0 && rates[1] > 0) prior_->set(rates);
}

std::shared_ptr<PlacementPolicy> PlacementMemory::of(const std::string& kind,
                                                     const std::shared_ptr<PlacementPrior>& prior) {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.kind == kind) return entry.policy;
  }
  entries_.push_back({kind, std::make_shared<PlacementPolicy>(prior)});
  return entries_.back().policy;
}

std::shared_ptr<PlacementPrior> PlacementPriors::of(const std::string& kind) {
  std::lock_guard lock(mutex_);
  const auto found = kinds_.find(kind);
  if (found != kinds_.end()) return found->second;
  if (!read_) {
    path_ = placement_file_path(file_);
    machine_ = placement_machine(threads_) + ": ";
    known_ = PlacementFile(path_).read();
    read_ = true;
  }
  const auto known = known_.find(machine_ + kind);
  auto prior = std::make_shared<PlacementPrior>(known != known_.end() ? known->second : PlacementRates{});
  if (kinds_.size() >= kMaxKinds) kinds_.erase(kinds_.begin());  // its arrays keep it
  kinds_.emplace(kind, prior);
  return prior;
}

void PlacementPriors::keep() noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (path_.empty()) return;
    KnownRates learnt;
    for (const auto& [kind, prior] : kinds_) {
      if (prior->learnt()) learnt.emplace(machine_ + kind, prior->get());
    }
    (void)PlacementFile(path_).add(learnt);
  } catch (const std::exception&) {  // no memory
  }
}

std::string placement_kind(const std::string& device, const codec::Chain& chain, std::size_t device_begin,
                           std::uint64_t chunks_at_a_time) {
  const auto power_of_four = [](std::uint64_t n) { return std::to_string((std::bit_width(n) + 1) / 2); };
  std::string kind = device;
  kind += ' ' + power_of_four(chain.decoded_bytes()) + ' ' + power_of_four(chunks_at_a_time);
  for (std::size_t i = 0; i < device_begin; ++i) kind.append(" ").append(chain.stage_name(i));
  for (const device::DecodeStage& stage : chain.device_stages(device_begin)) {
    kind.append(" ").append(stage.codec);
    for (const std::uint64_t parameter : stage.parameters) kind += ',' + std::to_string(parameter);
  }
  return kind;
}

}  // namespace headrace::transfer
