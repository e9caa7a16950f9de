// ArrayStatistics: RunningStatistics of a whole array, or per index along some dimensions.
#pragma once

#include <headrace/array.h>
#include <headrace/device.h>
#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "statistics/running_statistics.h"

namespace headrace::cli {

struct ArrayStatisticsOptions {
  std::vector<std::size_t> by;  // dimensions, ascending: one statistic per combination of their indices
  bool quantiles = false;
  double scale = 1, offset = 0;
  bool fill_as_nan = false;
  std::uint64_t slab_bytes = std::uint64_t{256} << 20;  // per read; twice this in memory
  unsigned threads = 0;                                 // compute threads; 0: the CPUs this process may use
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // called with elements; may be empty
};

// Returns one statistic per index of `by`, in C order; a single one without.
// kUnsupported: non-numeric elements. kResourceExhausted: the statistics exceed kMaxStatisticsBytes.
inline constexpr std::uint64_t kMaxStatisticsBytes = std::uint64_t{1} << 30;
Result<std::vector<RunningStatistics>> array_statistics(const Array& array, const ArrayStatisticsOptions& options);

}  // namespace headrace::cli
