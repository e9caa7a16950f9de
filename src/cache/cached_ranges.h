// CachedRanges: a ByteStore whose ranges are kept on a local disk: what was read once is read from there.
//
// A cached range is served only of the version of the object that the store behind has named since this was made (or as
// CacheTrust says), so the store behind decides who may read what, and which bytes are right. Objects without a
// version, and Zarr's own documents, are always read from the store behind.
//
// Threads: as a ByteStore has them; RangeListener::done() also on threads of the DiskCache.
// Owns:    the store behind, and a share of the DiskCache.
#pragma once

#include <headrace/byte_store.h>

#include <memory>
#include <string_view>

#include "base/memory_budget.h"
#include "cache/cache_options.h"

namespace headrace::cache {

// `identity`: which objects the store has, endpoint and prefix included; only its hash is kept. `memory`: of what is
// remembered of each object; null: no limit. kPermission, kInvalidArgument, kIo: the directory cannot be used.
Result<std::shared_ptr<ByteStore>> make_cached_ranges(std::shared_ptr<ByteStore> behind, std::string_view identity,
                                                      const CacheOptions& options,
                                                      std::shared_ptr<base::MemoryBudget> memory);

}  // namespace headrace::cache
