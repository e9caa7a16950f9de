// RateLimit: limits the bytes or blocks per second of a direction, by setting the time of its next I/O.
//
// Delayed I/Os are caught up with: the limit applies to the average since the start. Threads: one at a time.
#pragma once

#include <cmath>
#include <cstdint>

#include "offset_generator.h"

namespace headrace::bench {

class RateLimit {
 public:
  RateLimit() = default;
  // 0: unlimited. `poisson`: random intervals between blocks with the same mean.
  RateLimit(std::uint64_t bytes_per_second, std::uint64_t blocks_per_second, bool poisson, std::uint64_t seed)
      : bytes_(bytes_per_second), blocks_(blocks_per_second), seed_(seed), poisson_(poisson) {}

  bool limits() const noexcept { return bytes_ > 0 || blocks_ > 0; }
  // Time of the next I/O in nanoseconds; 0 before the first I/O, at most 2^62.
  std::uint64_t due() const noexcept { return static_cast<std::uint64_t>(std::fmin(due_, 0x1p62)); }
  void begun(std::uint64_t now, std::uint64_t bytes, std::uint64_t blocks) noexcept {
    if (due_ == 0) due_ = static_cast<double>(now);
    double step = 0;
    if (bytes_ > 0) step = static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_);
    if (blocks_ > 0) step = std::fmax(step, static_cast<double>(blocks) * 1e9 / static_cast<double>(blocks_));
    if (poisson_) step *= -std::log((static_cast<double>(mix64(seed_ + count_++) >> 11) + 0.5) * 0x1p-53);
    due_ += step;
  }

 private:
  std::uint64_t bytes_ = 0, blocks_ = 0, seed_ = 0, count_ = 0;
  bool poisson_ = false;
  double due_ = 0;
};

}  // namespace headrace::bench
