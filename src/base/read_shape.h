// ReadShape: how a store is best asked for ranges that lie near each other, and how much of it at a time.
//
// Threads: a ReadShaper's call from any thread; it takes no lock.
#pragma once

#include <cstdint>

namespace headrace::base {

// The defaults are those of files on a local disk.
struct ReadShape {
  std::uint64_t gap_bytes = std::uint64_t{16} << 10;        // between two ranges: up to it cheaper read than asked anew
  std::uint64_t group_bytes = std::uint64_t{1} << 20;       // most that one request takes of several ranges
  std::uint64_t most_group_bytes = std::uint64_t{1} << 20;  // that group_bytes ever is
  std::uint64_t window_bytes = 0;  // to have under way, so that no connection waits; 0: as for files
  std::uint64_t requests = 0;      // that are answered at the same time, however short they are; 0: not known
  bool tells_lengths = false;      // an answer says how long its object is
  bool steady = false;             // who asks for the same range again is served sooner
};

// Whoever learns how a store is best asked.
class ReadShaper {
 public:
  // `steady`: the same for the same options, whatever was learned: for what has to ask the same way again.
  virtual ReadShape read_shape(bool steady) const noexcept = 0;

 protected:
  ~ReadShaper() = default;
};

}  // namespace headrace::base
