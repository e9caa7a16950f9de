// Opens a shard: reads and checks its index, and binds both to one version of the object.
//
// Threads: every call from any number of threads.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "os/file_handle.h"
#include "store/store.h"
#include "transfer/plan/plan.h"
#include "zarr/shard/shard_index.h"

namespace headrace::zarr {

class ShardCache;

// An open shard whose index has been read and checked.
struct OpenShard final : public transfer::SourceVersion {
  std::string key;
  std::uint64_t id = 0;  // unique to this opening
  std::shared_ptr<store::ByteSource> object;
  const ShardIndexFormat* format = nullptr;  // the array's
  std::vector<ShardEntry> entries;
  std::size_t unpacked_bytes = 0;  // memory that `object` keeps
  base::Charge memory;             // of the index and `object`
  std::string version;             // of an object that offers ranges; empty: unknown
  mutable std::atomic<bool> stale{false};
  // Identity of its file from before the index was read.
  os::FileIdentity identity;
  // The file had not changed for a tenth of a second. Any later change then shows in the identity, even if its writer
  // paused for up to that long between stamping the file and writing the bytes.
  bool was_settled = false;

  // Memory of this object itself and of its place in a ShardCache.
  std::size_t own_bytes() const noexcept {
    return sizeof(OpenShard) + sizeof(store::ByteSource) + 256 + 3 * key.size() + version.size();
  }
  bool in_memory() const noexcept { return object->offers(store::Offer::kMemory); }
  // Whether `now`, which is open under the shard's key, has the bytes that the index was read from.
  bool is(const store::ByteSource& now) const;
  Status check() const override;
  std::unique_ptr<const SourceVersion> begin_check() const override;
  Status check_index(std::span<const std::byte> bytes) const;
  std::optional<transfer::StoredVersion> stored() const noexcept override;
  void mark_stale() const noexcept override { stale = true; }
};

// The checked index of a shard inside a shard; offsets are from the start of the object.
using InnerIndex = std::vector<ShardEntry>;

// The shards of one array. What its references refer to must outlive it.
struct ShardAccess {
  store::Store& store;
  std::span<const ShardIndexFormat> formats;  // by level, outermost first
  ShardCache& cache;
  bool revalidate = false;  // OpenOptions

  // Null if the shard does not exist. Adds what it opens and reads to `lookups`. `index`: the finished read of its
  // index, if the store offers ranges; null: the index is read here.
  Result<std::shared_ptr<const OpenShard>> open(const std::string& key, Stats& lookups,
                                                RangeRead* index = nullptr) const;
  // Whether open() would read an index.
  bool reads_index_of(const std::string& key) const;
  // Opens a shard at `level` (1: a chunk of the object's own shard) whose bytes in the object are `range`. `index`: as
  // for open().
  Result<std::shared_ptr<const InnerIndex>> open_inner(const OpenShard& shard, std::size_t level,
                                                       const ShardEntry& range, Stats& lookups,
                                                       const RangeRead* index = nullptr) const;
};

}  // namespace headrace::zarr
