// Distribution: non-uniform access frequencies of n random blocks.
//
// For zipf and pareto, a permutation spreads the ranks over the region, so the hottest blocks may lie anywhere; it is
// the same in every pass. normal is centred on the middle of the region. For zoned, ZoneMap picks the blocks.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string_view>

#include "access_zones.h"

namespace headrace::bench {

struct DistributionKind {
  enum class Law : std::uint8_t { kUniform, kZipf, kPareto, kNormal, kZoned };
  Law law = Law::kUniform;
  double parameter = 0;  // theta, h, or the standard deviation in percent of the region
  AccessZones zones[2];  // for reads and for writes
  bool operator==(const DistributionKind&) const = default;
};

// "random", "zipf:1.2", "pareto:0.9", "normal:20", "zoned:60/10:40/90", "zoned_abs:60/1g:40/9g"; zones may be
// READ,WRITE.
Result<DistributionKind> parse_distribution(std::string_view text);

class Distribution {
 public:
  Distribution() = default;
  // REQUIRES: count > 0, and a distribution that is neither uniform nor zoned.
  Distribution(const DistributionKind& kind, std::uint64_t count);
  // A rank below `count`, 0 being the most likely (for normal: a position); depends on the random word only.
  std::uint64_t pick(std::uint64_t random) const noexcept;

 private:
  double area(double x) const noexcept;      // under rank^-theta, from 1 to x
  double area_end(double a) const noexcept;  // its inverse
  DistributionKind::Law law_ = DistributionKind::Law::kUniform;
  double parameter_ = 0;
  double count_ = 1, first_ = 0, last_ = 0;
};

}  // namespace headrace::bench
