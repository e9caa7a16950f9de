// PlacementPolicy: decides which processor decodes the next wave, from the speed of earlier waves of either kind.
//
// Waves in flight share bus, CPU and GPU, so a wave's time is meaningful only while all of them are of one kind. The
// kinds therefore take turns, and only waves that began while no other kind was in flight are counted. A counted wave's
// cost is the time from the end of the previous wave to its own end: the time that one more wave takes, however many
// are in flight. The device has the first turn; the CPU has one if it may be faster; then the faster one decodes. The
// other is tried again occasionally, for a small share of the time, since page cache, disk and neighbours change.
//
// A CPU turn may take up all of a short read at a fraction of the device's speed, so a probe comes first: a wave of a
// few chunks while the device decodes its waves. Its duration is not a measurement, but each thread's decoding time is:
// the rate of one thread times the number of threads bounds the CPU's rate. If that bound is below the device's rate,
// the CPU gets no turn; and a CPU turn ends as soon as its waves show the same.
//
// Ends may be noticed late and many at once, so a turn's rate is capped at the bytes of all waves in flight divided by
// the mean latency of a wave. A kind's rate is that of the best of its last few turns: a turn can be slow for transient
// reasons, such as memory being registered, and a kind that looks slow is not tried again soon.
//
// What was learnt belongs to one array's reads of one kind and is kept for later ones. A new array starts with the
// rates of its kind (PlacementPrior), and trusts the rate of one processor as long as the other is as fast as recorded.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace headrace::codec {
class Chain;
}

namespace headrace::transfer {

enum class WaveKind : std::uint8_t { kGpu, kCpu };

using PlacementRates = std::array<double, 2>;  // by WaveKind, decoded bytes per second; 0: not known

// The latest rates of reads of one kind, of whichever array.
class PlacementPrior {
 public:
  // known: rates from earlier processes.
  explicit PlacementPrior(const PlacementRates& known = {}) : rates_(known) {}
  PlacementRates get() const;
  void set(const PlacementRates& rates);
  bool learnt() const;  // set() was called

 private:
  mutable std::mutex mutex_;
  PlacementRates rates_;  // guarded by mutex_
  bool learnt_ = false;   // guarded by mutex_
};

struct WaveChoice {
  WaveKind kind = WaveKind::kGpu;
  bool probe = false;  // a few chunks are enough
  bool trial = false;  // of a trial turn: the larger its waves, the later a losing trial ends
};

// What a CPU wave shows about the upper bound of all threads together.
struct CpuWork {
  double thread_rate = 0;         // bytes per second that one thread decoded; 0: not known
  std::uint64_t threads = 0;      // the number of threads
  std::uint64_t wave_chunks = 0;  // of a wave that is no probe: how many threads find work in it
};

class PlacementPolicy {
 public:
  explicit PlacementPolicy(std::shared_ptr<PlacementPrior> prior = nullptr) : prior_(std::move(prior)) {}

  // Decides the kind of the next wave. Each begin() needs one end(). mapped_bytes: file bytes that the device can
  // currently copy from the page cache itself.
  WaveChoice begin(std::uint64_t now_ns, std::uint64_t mapped_bytes = 0);
  // started_ns: the time given to begin(). bytes: decoded; 0: the wave was given up and is not measured. work: for
  // kCpu.
  void end(WaveChoice wave, std::uint64_t started_ns, std::uint64_t bytes, std::uint64_t now_ns, CpuWork work = {});
  // Decoded bytes per second; 0 while nothing has been measured.
  double rate(WaveKind kind) const;

 private:
  static constexpr std::size_t kTurns = 4;
  struct Seen {
    std::uint64_t in_flight = 0, ended = 0;
    double seconds = 0, bytes = 0;  // of the counted waves of this turn
    double latencies = 0;           // sum of their seconds from begin to end
    std::uint64_t turn_counted = 0, wave_bytes = 0;
    std::array<double, kTurns> turns{};               // rates of the last ones
    std::uint64_t turns_ended = 0;                    // the next one's rate goes to turns[turns_ended % kTurns]
    double turn_rate(std::uint64_t max_waves) const;  // 0: not enough has been counted
    void end_turn(std::uint64_t max_waves);
    double rate(std::uint64_t max_waves) const;
  };
  Seen& of(WaveKind kind) { return seen_[static_cast<std::size_t>(kind)]; }
  double measured_locked(WaveKind kind) const { return seen_[static_cast<std::size_t>(kind)].rate(max_in_flight_); }
  // The CPU's last waves show that it cannot be faster.
  bool ruled_out_locked() const;
  PlacementRates own_rates_locked() const;
  PlacementRates estimates_locked() const;
  std::uint64_t turn_waves_locked() const;
  bool turn_is_lost_locked() const;
  WaveKind begin_turn_locked(bool more_is_mapped);
  WaveKind try_locked(WaveKind kind);
  WaveKind settle_locked(const PlacementRates& rates, bool more_is_mapped);
  void end_probe_locked(double seconds);
  void publish_locked();

  const std::shared_ptr<PlacementPrior> prior_;  // may be null
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::array<Seen, 2> seen_;
  WaveKind turn_ = WaveKind::kGpu;
  bool trial_ = false;                // this turn is a trial
  std::uint64_t mapped_bytes_ = 0;    // when the device's last wave began
  std::uint64_t turn_started_ = 0;    // waves of this turn
  std::uint64_t max_in_flight_ = 1;   // ever
  std::uint64_t alone_since_ns_ = 0;  // since when no wave of the other kind is in flight; 0: one is
  std::uint64_t last_end_ns_ = 0;
  double total_seconds_ = 0, trial_seconds_ = 0;
  double settled_rate_ = 0;   // of the better kind, since the last trial
  bool wants_probe_ = false;  // the next wave is a probe
  bool open_ = false;         // the last probe has not ruled out the CPU, which has had no turn since
  bool trying_ = false;       // the CPU's first turn has begun, but gives no rate yet
  std::uint64_t probes_in_flight_ = 0;
  double probe_seconds_ = 0;           // duration of the last probe
  std::array<double, 2> max_rates_{};  // bounds for all threads from the CPU's last waves, newest first; 0: none yet
};

// The policies of one array, one for each kind of read.
class PlacementMemory {
 public:
  // Throws std::bad_alloc.
  std::shared_ptr<PlacementPolicy> of(const std::string& kind, const std::shared_ptr<PlacementPrior>& prior);

 private:
  struct Entry {
    std::string kind;
    std::shared_ptr<PlacementPolicy> policy;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
};

// The rates of each kind of read, within one Context and, through a file, across processes.
class PlacementPriors {
 public:
  // file: ContextOptions::placement_file. It is read when the first kind is requested. threads: that decode.
  PlacementPriors(std::string file, unsigned threads) : file_(std::move(file)), threads_(threads) {}
  // Throws std::bad_alloc.
  std::shared_ptr<PlacementPrior> of(const std::string& kind);
  // Writes learnt rates to the file. Failures are ignored: the rates are learnt again.
  void keep() noexcept;

 private:
  const std::string file_;
  const unsigned threads_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PlacementPrior>> kinds_;  // guarded by mutex_
  std::string path_;                                              // guarded by mutex_: file_ once it is resolved
  std::string machine_;                                           // guarded by mutex_: prefix of its kinds' names
  std::map<std::string, PlacementRates> known_;                   // guarded by mutex_: contents of the file
  bool read_ = false;                                             // guarded by mutex_
};

// What the processors' rates depend on: device, codecs and their settings and, by powers of four, the bytes of a chunk
// and the number of chunks decoded at a time. The device decodes from stage `device_begin` on. Throws std::bad_alloc.
std::string placement_kind(const std::string& device, const codec::Chain& chain, std::size_t device_begin,
                           std::uint64_t chunks_at_a_time);

}  // namespace headrace::transfer
