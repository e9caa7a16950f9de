// What Stats says of the ways that bytes came by.
#pragma once

#include <headrace/stats.h>

#include <cstdint>

namespace headrace::testing {

// All bytes that were read, each by one way.
inline std::uint64_t bytes_by_all_ways(const Stats& stats) {
  return stats.direct_bytes + stats.engine_bytes + stats.buffered_bytes + stats.memory_bytes + stats.mapped_bytes +
         stats.store_bytes + stats.cache_bytes + stats.packed_bytes;
}

}  // namespace headrace::testing
