// Helpers for the paths that Stats counts bytes by.
#pragma once

#include <headrace/stats.h>

#include <cstdint>

namespace headrace::testing {

// Sum of all bytes read, each counted under one path.
inline std::uint64_t bytes_by_all_ways(const Stats& stats) {
  return stats.direct_bytes + stats.engine_bytes + stats.buffered_bytes + stats.memory_bytes + stats.mapped_bytes +
         stats.store_bytes + stats.cache_bytes + stats.packed_bytes;
}

}  // namespace headrace::testing
