// ReadShape: how to split reads of a store into requests: which ranges to combine, and how much to keep in flight.
//
// Threads: a ReadShaper may be called from any thread; it takes no lock.
#pragma once

#include <cstdint>

namespace headrace::base {

// The defaults suit files on a local disk.
struct ReadShape {
  std::uint64_t gap_bytes = std::uint64_t{16} << 10;       // gaps up to this size are cheaper to read than
                                                           // a new request
  std::uint64_t group_bytes = std::uint64_t{1} << 20;      // maximum bytes of one request for several ranges
  std::uint64_t max_group_bytes = std::uint64_t{1} << 20;  // upper bound of group_bytes
  std::uint64_t window_bytes = 0;  // bytes to keep in flight so that no connection idles; 0: as for files
  std::uint64_t requests = 0;      // requests that the store answers in parallel, however short; 0: unknown
  bool tells_lengths = false;      // answers include the length of the object
  bool steady = false;             // repeating the same ranges is served faster
};

// Learns how a store is best read.
class ReadShaper {
 public:
  // `steady`: return the same shape for the same options whatever was learned, for reads that must repeat exactly.
  virtual ReadShape read_shape(bool steady) const noexcept = 0;

 protected:
  ~ReadShaper() = default;
};

}  // namespace headrace::base
