// PlacementPolicy: which processor decodes the next wave, from how fast waves of either kind have gone.
//
// A wave's cost is the time from the end of the wave before it to its own end: that is what one wave more takes,
// however many are under way. The device begins; after some waves the CPU has its turn; then the faster one decodes,
// and the other is tried again now and then, for a small share of the time, since page cache, disk and neighbours
// change. What was learnt belongs to one array on one device and is kept for its later reads.
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
  // bytes: decoded; 0: the wave was given up and tells nothing.
  void end(WaveKind kind, std::uint64_t bytes, std::uint64_t now_ns);
  // Decoded bytes a second; 0 while nothing is known.
  double rate(WaveKind kind) const;

 private:
  struct Seen {
    std::uint64_t begun = 0, ended = 0;
    double seconds = 0, bytes = 0;  // of waves that ended, old ones counting less
  };
  Seen& of(WaveKind kind) { return seen_[static_cast<std::size_t>(kind)]; }
  double rate_locked(WaveKind kind) const;
  WaveKind choose_locked();

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::array<Seen, 2> seen_;
  std::uint64_t in_flight_ = 0, last_end_ns_ = 0;
  unsigned trial_left_ = 0;  // waves of the slower kind still to begin
  double total_seconds_ = 0, trial_seconds_ = 0;
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
