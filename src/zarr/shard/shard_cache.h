// ShardCache: keeps shards open, and keeps indexes of shards inside them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/memory_budget.h"
#include "os/descriptors.h"
#include "zarr/shard/open_shard.h"

namespace headrace::zarr {

// Keeps the most recently used shards, so that consecutive reads parse an index only once. A caller of find() must
// check that the shard is still current. Indexes of inner shards belong to one opening of the outer shard.
//
// Threads: every call from any thread.
class ShardCache final : public os::DescriptorKeeper, public base::MemoryBudget::Keeper {
 public:
  // Entries are evicted when the budget's memory is needed elsewhere. Throws std::bad_alloc.
  explicit ShardCache(std::shared_ptr<base::MemoryBudget> budget);
  ShardCache(const ShardCache&) = delete;
  ShardCache& operator=(const ShardCache&) = delete;
  ~ShardCache();
  void drop_unused() noexcept override;
  const std::shared_ptr<base::MemoryBudget>& budget() const noexcept { return budget_; }
  std::uint64_t oldest_ns() noexcept override;
  bool close_oldest() noexcept override;
  std::shared_ptr<const OpenShard> find(std::string_view key);
  void insert(std::shared_ptr<const OpenShard> open);  // replaces an entry with the same key
  // The key of an inner index contains its level: a shard and the first shard in it may begin at the same byte.
  std::shared_ptr<const InnerIndex> find(const OpenShard& shard, std::size_t level, const ShardEntry& range);
  void insert(const OpenShard& shard, std::size_t level, const ShardEntry& range,
              std::shared_ptr<const InnerIndex> index);
  std::uint64_t new_id() noexcept { return next_id_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // Evicts the least recently used entry, limited by number and by the memory that entries keep.
  template <class Key, class Value>
  class Lru {
   public:
    template <class Like>
    Value find(const Like& key);
    void insert(Key key, Value value, std::size_t bytes, std::size_t max_items, std::size_t max_bytes);
    void erase(const Key& key);
    void clear() noexcept;
    // The least recently used entry that has no other holder; null: none.
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
  static constexpr std::size_t kMaxRangeShards = 65536;                  // these keep no descriptor
  static constexpr std::size_t kMaxShardBytes = std::size_t{256} << 20;  // indexes, and unpacked shards
  static constexpr std::size_t kMaxInner = 65536;
  static constexpr std::size_t kMaxInnerBytes = std::size_t{64} << 20;
  const std::shared_ptr<base::MemoryBudget> budget_;
  std::mutex mutex_;
  bool listed_ = false;                                        // guarded by mutex_: registered as a DescriptorKeeper
  Lru<std::string, std::shared_ptr<const OpenShard>> shards_;  // guarded by mutex_
  using InnerKey = std::array<std::uint64_t, 4>;               // opening, level, offset, length
  Lru<InnerKey, std::shared_ptr<const InnerIndex>> indexes_;   // guarded by mutex_
  std::atomic<std::uint64_t> next_id_{0};
};

}  // namespace headrace::zarr
