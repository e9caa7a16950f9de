// CachedRanges: a ByteStore that caches the ranges of another store on a local disk.
//
// A cached range is served only for the version of the object that the underlying store has reported since this store
// was created (or as CacheTrust allows). So the underlying store still decides who may read what, and which bytes are
// current. Objects without a version, and Zarr's own documents, are always read from the underlying store.
//
// Threads: as in ByteStore; RangeListener::done() may also be called on threads of the DiskCache.
// Owns:    the underlying store, and a share of the DiskCache.
#pragma once

#include <headrace/byte_store.h>

#include <memory>
#include <string_view>

#include "base/memory_budget.h"
#include "cache/cache_options.h"

namespace headrace::cache {

// `identity`: identifies the store's objects, endpoint and prefix included; only its hash is stored. `memory`: budget
// for what is remembered of each object; null: unlimited. kPermission, kInvalidArgument, kIo: the directory cannot be
// used.
Result<std::shared_ptr<ByteStore>> make_cached_ranges(std::shared_ptr<ByteStore> wrapped, std::string_view identity,
                                                      const CacheOptions& options,
                                                      std::shared_ptr<base::MemoryBudget> memory);

}  // namespace headrace::cache
