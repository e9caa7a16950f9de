// PlacementPolicy: which processor decodes the next wave, from how fast waves of either kind have gone.
//
// Waves under way share bus, CPU and GPU, so a wave's time means something only while all of them are of one kind. The
// kinds therefore take turns, and only waves that began when no other kind was under way are counted. A counted wave's
// cost is the time from the end of the wave before it to its own end: what one wave more takes, however many are under
// way. The device begins; the CPU has a turn if it may be the faster; then the faster one decodes, and the other is
// tried again now and then, for a small share of the time, since page cache, disk and neighbours change.
//
// A turn of the CPU may be all of a short read, at a fraction of the device's speed, so a probe comes first: a wave of
// a few chunks beside the device's. Its time tells nothing, but the time that each thread took to decode does: all
// threads together decode no faster than that many times one of them. Where that is less than the device's rate the CPU
// gets no turn, and a turn ends as soon as its waves say so.
//
// Ends may be noticed late and many at once, so no turn counts as faster than the waves in flight over the time that
// each of them took. A kind's rate is that of the best of its last few turns: a turn can be slow for reasons that do
// not last, such as memory that is registered meanwhile, and a kind that is thought slow is not tried again soon.
//
// What was learnt belongs to one array's reads of one kind and is kept for the later ones. A new array begins with what
// is known of its kind (PlacementPrior), and believes it of one processor while the other is as fast as is known.
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

using PlacementRates = std::array<double, 2>;  // by WaveKind, decoded bytes a second; 0: not known

// What reads of one kind have come to last, of whichever array.
class PlacementPrior {
 public:
  // known: by earlier processes.
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
  bool trial = false;  // of a turn that is for finding out: the more it takes, the longer it is until it is lost
};

// What a wave of the CPU's says of what all its threads could do at most.
struct CpuWork {
  double thread_rate = 0;         // bytes a second that one thread decoded; 0: not known
  std::uint64_t threads = 0;      // there are
  std::uint64_t wave_chunks = 0;  // of a wave that is no probe: so many threads find work in it
};

class PlacementPolicy {
 public:
  explicit PlacementPolicy(std::shared_ptr<PlacementPrior> prior = nullptr) : prior_(std::move(prior)) {}

  // What a wave that begins now is to be. Each begin() is answered by one end(). mapped_bytes: of files, that the
  // device can take out of the page cache itself by now.
  WaveChoice begin(std::uint64_t now_ns, std::uint64_t mapped_bytes = 0);
  // begun_ns: what begin() was told. bytes: decoded; 0: the wave was given up and tells nothing. work: of kCpu.
  void end(WaveChoice wave, std::uint64_t begun_ns, std::uint64_t bytes, std::uint64_t now_ns, CpuWork work = {});
  // Decoded bytes a second; 0 while nothing has been measured.
  double rate(WaveKind kind) const;

 private:
  static constexpr std::size_t kTurns = 4;
  struct Seen {
    std::uint64_t in_flight = 0, ended = 0;
    double seconds = 0, bytes = 0;  // of the counted waves of this turn
    double latencies = 0;           // sum of their seconds from begin to end
    std::uint64_t turn_counted = 0, wave_bytes = 0;
    std::array<double, kTurns> turns{};                // rates of the last ones
    std::uint64_t turns_ended = 0;                     // the next one's rate goes to turns[turns_ended % kTurns]
    double turn_rate(std::uint64_t most_waves) const;  // 0: not enough has been seen
    void end_turn(std::uint64_t most_waves);
    double rate(std::uint64_t most_waves) const;
  };
  Seen& of(WaveKind kind) { return seen_[static_cast<std::size_t>(kind)]; }
  double measured_locked(WaveKind kind) const { return seen_[static_cast<std::size_t>(kind)].rate(most_in_flight_); }
  // The CPU's waves seen last say that it cannot be the faster.
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
  bool trial_ = false;                // this turn is for finding out
  std::uint64_t mapped_bytes_ = 0;    // when the device's last wave began
  std::uint64_t turn_begun_ = 0;      // waves of this turn
  std::uint64_t most_in_flight_ = 1;  // ever
  std::uint64_t alone_since_ns_ = 0;  // since when no wave of the other kind is under way; 0: one is
  std::uint64_t last_end_ns_ = 0;
  double total_seconds_ = 0, trial_seconds_ = 0;
  double settled_rate_ = 0;   // of the better kind, since the last trial
  bool wants_probe_ = false;  // the next wave is one
  bool open_ = false;         // the last probe has not ruled out the CPU, which has had no turn since
  bool trying_ = false;       // its first turn has begun, and has not told yet
  std::uint64_t probes_in_flight_ = 0;
  double probe_seconds_ = 0;            // that the last one took
  std::array<double, 2> most_rates_{};  // of all threads, by the CPU's last waves, the newest first; 0: none yet
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

// What is known of each kind of read, in one Context; and, by a file, from one process to the next.
class PlacementPriors {
 public:
  // file: ContextOptions::placement_file. It is read when a kind is first asked for. threads: that decode.
  PlacementPriors(std::string file, unsigned threads) : file_(std::move(file)), threads_(threads) {}
  // Throws std::bad_alloc.
  std::shared_ptr<PlacementPrior> of(const std::string& kind);
  // Puts into the file what reads have come to. What goes wrong is lost: it is learnt again.
  void keep() noexcept;

 private:
  const std::string file_;
  const unsigned threads_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PlacementPrior>> kinds_;  // guarded by mutex_
  std::string path_;                                              // guarded by mutex_: file_ once it was looked for
  std::string machine_;                                           // guarded by mutex_: what its kinds' names begin with
  std::map<std::string, PlacementRates> known_;                   // guarded by mutex_: what the file said
  bool read_ = false;                                             // guarded by mutex_
};

// What the processors' rates hang on: device, codecs and their settings, and, by powers of four, the bytes of a chunk
// and how many of them there are to be decoded at a time. The device takes over from stage `device_begin`. Throws
// std::bad_alloc.
std::string placement_kind(const std::string& device, const codec::Chain& chain, std::size_t device_begin,
                           std::uint64_t chunks_at_a_time);

}  // namespace headrace::transfer
