#include "base/file_handle.h"
#include "base/trace.h"
#include "zarr/array_impl.h"

namespace headrace::zarr {

template <class Key, class Value>
template <class Like>
Value ShardCache::Lru<Key, Value>::find(const Like& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  items_.splice(items_.begin(), items_, found->second);
  return found->second->value;
}

template <class Key, class Value>
void ShardCache::Lru<Key, Value>::insert(Key key, Value value, std::size_t bytes, std::size_t most_items,
                                         std::size_t most_bytes) {
  if (by_key_.count(key) != 0) return;
  items_.push_front({key, std::move(value), bytes});
  try {
    by_key_[std::move(key)] = items_.begin();
  } catch (...) {
    items_.pop_front();
    throw;
  }
  bytes_ += bytes;
  while (items_.size() > 1 && (items_.size() > most_items || bytes_ > most_bytes)) {
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

std::shared_ptr<const OpenShard> ShardCache::find(std::string_view key) {
  std::lock_guard lock(mutex_);
  return shards_.find(key);
}

void ShardCache::insert(std::shared_ptr<const OpenShard> open) {
  std::lock_guard lock(mutex_);
  std::string key = open->key;
  const std::size_t bytes = open->entries.size() * sizeof(ShardEntry) + open->unpacked_bytes;
  shards_.erase(key);
  shards_.insert(std::move(key), std::move(open), bytes, kMaxShards, kMaxShardBytes);
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

namespace {

// The index of a shard that is the object's bytes [begin, begin + length).
Status read_index(const store::Object& object, const ShardIndexFormat& format, std::uint64_t begin,
                  std::uint64_t length, std::vector<ShardEntry>& entries) {
  auto position = format.position(length);
  if (!position.ok()) return std::move(position).status().with_range(begin, length);
  std::vector<std::byte> copy;
  std::span<const std::byte> encoded;
  const std::uint64_t at = begin + *position;
  const auto bytes = static_cast<std::size_t>(format.encoded_bytes());
  if (object.memory != nullptr) {
    encoded = {object.memory + at, bytes};
  } else {
    copy.resize(bytes);
    // Index reads are small and precede everything else of their shard, so they are made where they are needed.
    trace::Span span(trace::Stage::kRead, bytes);
    HEADRACE_TRY(object.read(at, copy));
    encoded = copy;
  }
  if (Status status = format.parse(encoded, length, entries); !status.ok()) {
    return std::move(status).with_range(at, bytes);
  }
  return {};
}

}  // namespace
}  // namespace headrace::zarr

namespace headrace {
namespace {

// All of a shard that its store keeps packed, in memory. 1 GiB at most: nothing is known yet of what it should hold.
Status unpack_shard(store::Store& store, zarr::OpenShard& open) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  struct Unpacked {
    store::Object object;
    std::vector<std::byte> bytes;
  };
  const store::Object& packed = *open.object;
  if (packed.size_bytes > kMostBytes) {
    return Status(Code::kResourceExhausted, Layer::kZarr,
                  "a compressed shard of " + std::to_string(packed.size_bytes) +
                      " bytes would have to be unpacked whole; store shards uncompressed");
  }
  auto unpacked = std::make_shared<Unpacked>();
  unpacked->bytes.resize(static_cast<std::size_t>(packed.size_bytes));
  base::PageBuffer scratch;
  trace::Span span(trace::Stage::kRead, packed.size_bytes);
  HEADRACE_TRY(store.unpack(packed, unpacked->bytes, scratch));
  unpacked->object.memory = unpacked->bytes.data();
  unpacked->object.size_bytes = packed.size_bytes;
  open.unpacked_bytes = unpacked->bytes.size();
  open.object = std::shared_ptr<store::Object>(unpacked, &unpacked->object);
  return {};
}

// Whether what is open under the shard's key now is what the shard was read from.
bool same_object(const store::Object& now, const zarr::OpenShard& shard) {
  if (now.is_packed()) return shard.unpacked_bytes != 0;  // stores that pack do not change
  const store::Object& then = *shard.object;
  if (now.memory != nullptr || then.memory != nullptr) {
    return now.memory == then.memory && now.size_bytes == then.size_bytes;
  }
  base::FileIdentity a, b;
  int error = 0;
  return now.base == then.base && base::identify(now.fd, a, error) && base::identify(then.fd, b, error) && a == b &&
         !base::recently_changed(a);
}

}  // namespace

Result<std::shared_ptr<const zarr::OpenShard>> Array::Impl::open_shard(const std::string& key) const {
  auto found = shards.find(key);
  if (found != nullptr && !revalidate) return found;
  store::Object object;
  Status status = store.impl()->open(key, object);
  if (status.code() == Code::kNotFound) return std::shared_ptr<const zarr::OpenShard>();
  if (!status.ok()) return status;
  if (found != nullptr && same_object(object, *found)) return found;
  auto open = std::make_shared<zarr::OpenShard>();
  open->key = key;
  open->id = shards.new_id();
  open->object = std::make_shared<store::Object>(std::move(object));
  if (open->object->is_packed()) {
    if (status = unpack_shard(*store.impl(), *open); !status.ok()) return std::move(status).with_key(key);
  }
  status = zarr::read_index(*open->object, sharding->indexes.front(), 0, open->object->size_bytes, open->entries);
  if (!status.ok()) return std::move(status).with_key(key);
  std::shared_ptr<const zarr::OpenShard> done = std::move(open);
  shards.insert(done);
  return done;
}

Result<std::shared_ptr<const zarr::InnerIndex>> Array::Impl::open_inner(const zarr::OpenShard& shard, std::size_t level,
                                                                        const zarr::ShardEntry& range) const {
  if (auto found = shards.find(shard, level, range)) return found;
  auto entries = std::make_shared<zarr::InnerIndex>();
  Status status = zarr::read_index(*shard.object, sharding->indexes[level], range.offset, range.length, *entries);
  if (!status.ok()) return std::move(status).with_key(shard.key);
  for (zarr::ShardEntry& entry : *entries) {
    if (entry.length != 0) entry.offset += range.offset;
  }
  std::shared_ptr<const zarr::InnerIndex> done = std::move(entries);
  shards.insert(shard, level, range, done);
  return done;
}

}  // namespace headrace
