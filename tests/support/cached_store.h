// An in-memory ByteStore behind a disk cache, and synchronous reads of it.
#pragma once

#include <gtest/gtest.h>
#include <headrace/disk_cache.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/cached_ranges.h"
#include "cache/disk_cache.h"
#include "store/range_read.h"
#include "support/ranges_in_memory.h"
#include "support/temp_dir.h"

namespace headrace::testing {

// Counts what the origin store is asked for.
struct AskedRanges {
  std::atomic<std::uint64_t> requests{0}, bytes{0};
  void reset() { requests = bytes = 0; }
};

struct CachedStoreInMemory {
  std::shared_ptr<AskedRanges> asked = std::make_shared<AskedRanges>();
  std::shared_ptr<RangeStoreInMemory> origin;
  std::shared_ptr<ByteStore> store;
  cache::CacheOptions options;

  // Reopens the cache over the same origin, as a new session does.
  void reopen(std::shared_ptr<base::MemoryBudget> memory = nullptr) {
    store.reset();
    auto made = cache::make_cached_ranges(origin, "toy://objects", options, std::move(memory));
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    store = *made;
  }
  void flush() const { cache::DiskCache::open(options).value()->flush(); }
};

inline CachedStoreInMemory cached_store(const std::string& directory, Objects objects, cache::CacheOptions options = {},
                                        RangeHabits habits = {.tells_version = true}) {
  CachedStoreInMemory out;
  out.options = std::move(options);
  out.options.directory = directory;
  habits.change = [asked = out.asked, also = habits.change](RangeRead& read) {
    ++asked->requests;
    asked->bytes += read.out.size();
    if (also) also(read);
  };
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): owned by a shared_ptr
  out.origin = std::make_shared<RangeStoreInMemory>(std::move(objects), habits);
  out.reopen();
  return out;
}

struct CachedAnswer {
  Status status;
  store::Bytes bytes;
  RangeCache cache = RangeCache::kNone;
  std::string version;
};

inline CachedAnswer read_range(ByteStore& store, const std::string& key, std::uint64_t offset, std::size_t size,
                               const std::string& version = "", bool from_end = false) {
  CachedAnswer out;
  out.bytes.resize(size);
  RangeRead read;
  read.key = key;
  read.offset = offset;
  read.out = out.bytes;
  read.version = version;
  read.from_end = from_end;
  out.status = store::read_range(store, read);
  out.bytes.resize(out.status.ok() ? static_cast<std::size_t>(read.bytes) : 0);
  out.cache = read.cache;
  out.version = read.found_version;
  return out;
}

// Objects "0", "1", ... of the given size, each with different bytes.
inline Objects numbered_objects(std::size_t count, std::size_t size) {
  Objects objects;
  for (std::size_t i = 0; i < count; ++i) objects[std::to_string(i)] = support::pattern(size, i);
  return objects;
}

}  // namespace headrace::testing
