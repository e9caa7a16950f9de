#include "zarr/shard/shard_cache.h"

#include "base/clock.h"

namespace headrace::zarr {

template <class Key, class Value>
template <class Like>
Value ShardCache::Lru<Key, Value>::find(const Like& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  items_.splice(items_.begin(), items_, found->second);
  found->second->used_ns = base::now_ns();
  return found->second->value;
}

template <class Key, class Value>
void ShardCache::Lru<Key, Value>::insert(Key key, Value value, std::size_t bytes, std::size_t max_items,
                                         std::size_t max_bytes) {
  if (by_key_.count(key) != 0) return;
  items_.push_front({key, std::move(value), bytes, base::now_ns()});
  try {
    by_key_[std::move(key)] = items_.begin();
  } catch (...) {
    items_.pop_front();
    throw;
  }
  bytes_ += bytes;
  while (items_.size() > 1 && (items_.size() > max_items || bytes_ > max_bytes)) {
    bytes_ -= items_.back().bytes;
    by_key_.erase(items_.back().key);
    items_.pop_back();
  }
}

template <class Key, class Value>
void ShardCache::Lru<Key, Value>::erase(const Key& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  bytes_ -= found->second->bytes;
  items_.erase(found->second);
  by_key_.erase(found);
}

template <class Key, class Value>
const typename ShardCache::Lru<Key, Value>::Item* ShardCache::Lru<Key, Value>::longest_idle() const noexcept {
  for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
    if (item->value.use_count() == 1) return &*item;
  }
  return nullptr;
}

std::uint64_t ShardCache::oldest_ns() noexcept {
  std::lock_guard lock(mutex_);
  const auto* const item = shards_.longest_idle();
  return item != nullptr ? item->used_ns : kNothing;
}

bool ShardCache::close_oldest() noexcept {
  std::lock_guard lock(mutex_);
  const auto* const item = shards_.longest_idle();
  if (item == nullptr) return false;
  shards_.erase(item->key);
  return true;
}

template <class Key, class Value>
void ShardCache::Lru<Key, Value>::clear() noexcept {
  by_key_.clear();
  items_.clear();
  bytes_ = 0;
}

ShardCache::ShardCache(std::shared_ptr<base::MemoryBudget> budget) : budget_(std::move(budget)) { budget_->add(*this); }

ShardCache::~ShardCache() {
  os::Descriptors::of_process().remove(*this);
  budget_->remove(*this);
}

void ShardCache::drop_unused() noexcept {
  std::lock_guard lock(mutex_);
  indexes_.clear();
  shards_.clear();
}

std::shared_ptr<const OpenShard> ShardCache::find(std::string_view key) {
  std::lock_guard lock(mutex_);
  return shards_.find(key);
}

void ShardCache::insert(std::shared_ptr<const OpenShard> open) {
  bool list = false;
  {
    std::lock_guard lock(mutex_);
    list = !std::exchange(listed_, true);
  }
  if (list) os::Descriptors::of_process().add(*this);  // without the lock, which it takes itself
  std::lock_guard lock(mutex_);
  std::string key = open->key;
  const std::size_t bytes = open->own_bytes() + open->entries.size() * sizeof(ShardEntry) + open->unpacked_bytes;
  shards_.erase(key);
  const std::size_t most = open->object->offers(store::Offer::kRanges) ? kMaxRangeShards : kMaxShards;
  shards_.insert(std::move(key), std::move(open), bytes, most, kMaxShardBytes);
}

std::shared_ptr<const InnerIndex> ShardCache::find(const OpenShard& shard, std::size_t level, const ShardEntry& range) {
  std::lock_guard lock(mutex_);
  return indexes_.find(InnerKey{shard.id, level, range.offset, range.length});
}

void ShardCache::insert(const OpenShard& shard, std::size_t level, const ShardEntry& range,
                        std::shared_ptr<const InnerIndex> index) {
  std::lock_guard lock(mutex_);
  const std::size_t bytes = index->size() * sizeof(ShardEntry);
  indexes_.insert(InnerKey{shard.id, level, range.offset, range.length}, std::move(index), bytes, kMaxInner,
                  kMaxInnerBytes);
}

}  // namespace headrace::zarr
