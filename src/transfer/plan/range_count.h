// Counts in Stats whether the bytes of a ByteStore's answer came from the store or its cache.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/stats.h>

#include <cstdint>

namespace headrace::transfer {

inline void count_range(Stats& stats, std::uint64_t bytes, RangeCache cache) noexcept {
  (cache == RangeCache::kHit ? stats.cache_bytes : stats.store_bytes) += bytes;
  stats.cache_hits += cache == RangeCache::kHit ? 1 : 0;
  stats.cache_misses += cache == RangeCache::kMiss ? 1 : 0;
}

}  // namespace headrace::transfer
