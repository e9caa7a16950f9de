// PlacementPolicy: which processor decodes the next wave, from how fast waves of either kind have gone.
//
// Waves under way share bus, CPU and GPU, so a wave's time means something only while all of them are of one kind. The
// kinds therefore take turns: a short read is one turn, a long read several, and only waves that began when no other
// kind was under way are counted. A counted wave's cost is the time from the end of the wave before it to its own end:
// what one wave more takes, however many are under way. The device begins; then the CPU has a turn; then the faster one
// decodes, and the other is tried again now and then, for a small share of the time, since page cache, disk and
// neighbours change. What was learnt belongs to one array on one device and is kept for its later reads.
//
// Ends may be noticed late and many at once, so no turn counts as faster than the waves in flight over the time that
// each of them took. A kind's rate is that of the best of its last few turns: a turn can be slow for reasons that do
// not last, such as memory that is registered meanwhile, and a kind that is thought slow is not tried again soon.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace headrace::transfer {

enum class WaveKind : std::uint8_t { kGpu, kCpu };

class PlacementPolicy {
 public:
  // The kind of a wave that begins now. Each begin() is answered by one end().
  WaveKind begin(std::uint64_t now_ns);
  // begun_ns: what begin() was told. bytes: decoded; 0: the wave was given up and tells nothing.
  void end(WaveKind kind, std::uint64_t begun_ns, std::uint64_t bytes, std::uint64_t now_ns);
  // Decoded bytes a second; 0 while nothing is known.
  double rate(WaveKind kind) const;

 private:
  static constexpr std::size_t kTurns = 4;
  struct Seen {
    std::uint64_t in_flight = 0, ended = 0;
    double seconds = 0, bytes = 0;  // of the counted waves of this turn
    double latencies = 0;           // sum of their seconds from begin to end
    std::uint64_t turn_counted = 0, wave_bytes = 0;
    std::array<double, kTurns> turns{};  // rates of the last ones
    std::size_t next_turn = 0;
    double turn_rate(std::uint64_t most_waves) const;  // 0: not enough has been seen
    void end_turn(std::uint64_t most_waves);
    double rate(std::uint64_t most_waves) const;
  };
  Seen& of(WaveKind kind) { return seen_[static_cast<std::size_t>(kind)]; }
  double rate_locked(WaveKind kind) const { return seen_[static_cast<std::size_t>(kind)].rate(most_in_flight_); }
  WaveKind choose_locked();

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::array<Seen, 2> seen_;
  WaveKind turn_ = WaveKind::kGpu;
  std::uint64_t turn_begun_ = 0;      // waves of this turn
  std::uint64_t most_in_flight_ = 1;  // ever
  std::uint64_t alone_since_ns_ = 0;  // since when no wave of the other kind is under way; 0: one is
  std::uint64_t last_end_ns_ = 0;
  double total_seconds_ = 0, trial_seconds_ = 0;
  double settled_rate_ = 0;  // of the better kind, since the last trial
};

// The policies of one array, one for each device it was read to.
class PlacementMemory {
 public:
  // Throws std::bad_alloc.
  std::shared_ptr<PlacementPolicy> for_device(const std::string& name);

 private:
  struct Entry {
    std::string device;
    std::shared_ptr<PlacementPolicy> policy;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
};

}  // namespace headrace::transfer
