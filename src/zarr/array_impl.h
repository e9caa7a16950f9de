// The inside of headrace::Array: metadata resolved into chains, and the cache of shard indexes.
#pragma once

#include <headrace/array.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptors.h"
#include "base/file_handle.h"
#include "base/memory_budget.h"
#include "codec/chain.h"
#include "device/box.h"
#include "store/store.h"
#include "transfer/index_cache.h"
#include "transfer/placement.h"
#include "transfer/plan.h"
#include "zarr/chain_builder.h"
#include "zarr/metadata.h"
#include "zarr/node_io.h"

namespace headrace::zarr {

// A shard that is open and whose index has been read and checked.
struct OpenShard final : public transfer::SourceVersion {
  std::string key;
  std::uint64_t id = 0;  // of this opening; no other has the same
  std::shared_ptr<store::ByteSource> object;
  const ShardIndexFormat* format = nullptr;  // the array's
  std::vector<ShardEntry> entries;
  std::size_t unpacked_bytes = 0;  // that `object` keeps in memory
  base::Charge memory;             // of both
  std::string version;             // of an object that offers ranges; empty: unknown
  mutable std::atomic<bool> refuted{false};
  // Of its file, before the index was read.
  base::FileIdentity identity;
  // It had not changed for a tenth of a second. A change since shows in the identity, also one whose writer was held up
  // for less than that between the time stamp and the bytes.
  bool was_still = false;

  bool in_memory() const noexcept { return object->offers(store::Offer::kMemory); }
  // Whether `now`, which is open under the shard's key, has the bytes that the index was read from.
  bool is(const store::ByteSource& now) const;
  Status check() const override;
  std::unique_ptr<const SourceVersion> begin_check() const override;
  Status check_index(std::span<const std::byte> bytes) const;
  void refute() const noexcept override { refuted = true; }
};

// The checked index of a shard inside a shard; offsets are from the start of the object.
using InnerIndex = std::vector<ShardEntry>;

// Keeps the shards used last, so that reads one after another parse an index once. Who takes one out asks whether it
// still is what it was; indexes of the shards inside belong to one opening.
//
// Threads: every call from any thread.
class ShardCache final : public base::DescriptorKeeper, public base::MemoryBudget::Keeper {
 public:
  // What is kept gives way to what else needs the budget's memory. Throws std::bad_alloc.
  explicit ShardCache(std::shared_ptr<base::MemoryBudget> budget);
  ShardCache(const ShardCache&) = delete;
  ShardCache& operator=(const ShardCache&) = delete;
  ~ShardCache();
  void let_go() noexcept override;
  const std::shared_ptr<base::MemoryBudget>& budget() const noexcept { return budget_; }
  std::uint64_t oldest_ns() noexcept override;
  bool close_oldest() noexcept override;
  std::shared_ptr<const OpenShard> find(std::string_view key);
  void insert(std::shared_ptr<const OpenShard> open);  // in the place of another of that key
  // What is inside is named by its level as well: a shard and the first shard in it may begin at one byte.
  std::shared_ptr<const InnerIndex> find(const OpenShard& shard, std::size_t level, const ShardEntry& range);
  void insert(const OpenShard& shard, std::size_t level, const ShardEntry& range,
              std::shared_ptr<const InnerIndex> index);
  std::uint64_t new_id() noexcept { return next_id_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // Least recently used first out, by number and by what it keeps in memory.
  template <class Key, class Value>
  class Lru {
   public:
    template <class Like>
    Value find(const Like& key);
    void insert(Key key, Value value, std::size_t bytes, std::size_t most_items, std::size_t most_bytes);
    void erase(const Key& key);
    void clear() noexcept;
    // Of what nobody uses, what has not been used for longest; null: nothing.
    struct Item {
      Key key;
      Value value;
      std::size_t bytes;
      std::uint64_t used_ns;
    };
    const Item* longest_idle() const noexcept;

   private:
    std::list<Item> items_;  // most recent first
    std::map<Key, typename std::list<Item>::iterator, std::less<>> by_key_;
    std::size_t bytes_ = 0;
  };
  static constexpr std::size_t kMaxShards = 64;                          // open files
  static constexpr std::size_t kMaxRangeShards = 256;                    // more than are asked for ahead
  static constexpr std::size_t kMaxShardBytes = std::size_t{256} << 20;  // indexes, and shards that had to be unpacked
  static constexpr std::size_t kMaxInner = 65536;
  static constexpr std::size_t kMaxInnerBytes = std::size_t{64} << 20;
  const std::shared_ptr<base::MemoryBudget> budget_;
  std::mutex mutex_;
  bool listed_ = false;                                        // guarded by mutex_: as a keeper
  Lru<std::string, std::shared_ptr<const OpenShard>> shards_;  // guarded by mutex_
  using InnerKey = std::array<std::uint64_t, 4>;               // opening, level, offset, length
  Lru<InnerKey, std::shared_ptr<const InnerIndex>> indexes_;   // guarded by mutex_
  std::atomic<std::uint64_t> next_id_{0};
};

}  // namespace headrace::zarr

class headrace::Array::Impl {
 public:
  Impl(Store owner, std::string node_path);

  // An array from its metadata. kInvalidArgument if the node is a group.
  static Result<Array> make(const Store& store, std::string path, zarr::LoadedNode node,
                            const OpenOptions& options = {});

  // Builds chains and ArrayInfo from `metadata`.
  Status resolve();
  // Blocks are of this array's grid.
  Result<ResolvedSelection> resolve_selection(const Selection& selection) const;
  // What decodes a chunk of `shape`, read whole.
  Result<codec::Chain> build_chain_for(const std::vector<std::uint64_t>& shape) const;
  // Key of an object of this array, NUL-terminated, from the array's own relative key.
  void append_prefix(std::string& key) const {
    if (!path.empty()) {
      key += path;
      key += '/';
    }
  }
  // Null where the shard does not exist. What is opened and read is added to `lookups`. `index`: the read of its index
  // that has ended already, where the store offers ranges; null: none.
  Result<std::shared_ptr<const zarr::OpenShard>> open_shard(const std::string& key, Stats& lookups,
                                                            RangeRead* index = nullptr) const;
  // Whether open_shard() would read an index.
  bool reads_index_of(const std::string& key) const;
  // Of the shard at `level` (1: a chunk of the object's own shard) whose bytes in the object are `range`.
  Result<std::shared_ptr<const zarr::InnerIndex>> open_inner(const zarr::OpenShard& shard, std::size_t level,
                                                             const zarr::ShardEntry& range, Stats& lookups) const;

  const Store store;
  const std::string path;
  zarr::ArrayMetadata metadata;
  std::optional<codec::Chain> chain;          // of one stored chunk, where it is read whole
  std::unique_ptr<zarr::ShardTree> sharding;  // set instead: inner chunks are read one by one
  DataType decoded;                           // type of the elements that a chain gives
  std::vector<std::byte> fill;                // one element
  device::ElementOp element_op;
  std::vector<std::uint64_t> grid;  // stored chunks (shards) along each axis
  ArrayInfo info;
  mutable zarr::ShardCache shards;
  mutable transfer::PlacementMemory placement;
  bool revalidate = false;        // OpenOptions
  base::Charge memory;            // of the metadata
  std::uint64_t index_array = 0;  // of the Context's IndexCache

  const codec::Chain& unit_chain() const noexcept { return sharding ? sharding->inner : *chain; }
  // Shape of what is read and decoded at a time.
  const std::vector<std::uint64_t>& unit_shape() const noexcept {
    return sharding ? sharding->grids.back().shape : metadata.chunk_shape;
  }
  // Of a decoded unit, along each axis of the array.
  const std::vector<std::int64_t>& unit_strides() const noexcept {
    return sharding ? sharding->strides_bytes : chain->strides_bytes();
  }
};
