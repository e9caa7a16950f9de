#include "base/trace.h"
#include "zarr/array_impl.h"

namespace headrace::zarr {

std::shared_ptr<const OpenShard> ShardCache::find(std::uint64_t shard) {
  std::lock_guard lock(mutex_);
  const auto found = by_shard_.find(shard);
  if (found == by_shard_.end()) return nullptr;
  items_.splice(items_.begin(), items_, found->second);
  return found->second->open;
}

void ShardCache::insert(std::uint64_t shard, std::shared_ptr<const OpenShard> open) {
  std::lock_guard lock(mutex_);
  if (by_shard_.count(shard) != 0) return;
  entries_ += open->entries.size();
  unpacked_bytes_ += open->unpacked_bytes;
  items_.push_front({shard, std::move(open)});
  by_shard_[shard] = items_.begin();
  while (items_.size() > 1 &&
         (items_.size() > kMaxShards || entries_ > kMaxEntries || unpacked_bytes_ > kMaxUnpacked)) {
    entries_ -= items_.back().open->entries.size();
    unpacked_bytes_ -= items_.back().open->unpacked_bytes;
    by_shard_.erase(items_.back().shard);
    items_.pop_back();
  }
}

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

}  // namespace

// Null where the shard does not exist.
Result<std::shared_ptr<const zarr::OpenShard>> Array::Impl::open_shard(const std::string& key,
                                                                       std::uint64_t number) const {
  if (auto found = shards.find(number)) return found;
  store::Object object;
  Status status = store.impl()->open(key, object);
  if (status.code() == Code::kNotFound) return std::shared_ptr<const zarr::OpenShard>();
  if (!status.ok()) return status;
  auto open = std::make_shared<zarr::OpenShard>();
  open->key = key;
  const zarr::ShardIndexFormat& format = sharding->index;
  auto position = format.position(object.size_bytes);
  if (!position.ok()) return std::move(position).status().with_key(key).with_range(0, object.size_bytes);
  std::vector<std::byte> copy;
  std::span<const std::byte> encoded;
  const auto length = static_cast<std::size_t>(format.encoded_bytes());
  open->object = std::make_shared<store::Object>(std::move(object));
  if (open->object->is_packed()) {
    if (status = unpack_shard(*store.impl(), *open); !status.ok()) return std::move(status).with_key(key);
  }
  const store::Object& shard = *open->object;
  if (shard.memory != nullptr) {
    encoded = {shard.memory + *position, length};
  } else {
    copy.resize(length);
    // Index reads are small and precede everything else of their shard, so they are made where they are needed.
    trace::Span span(trace::Stage::kRead, length);
    if (status = shard.read(*position, copy); !status.ok()) return std::move(status).with_key(key);
    encoded = copy;
  }
  status = format.parse(encoded, shard.size_bytes, open->entries);
  if (!status.ok()) return std::move(status).with_key(key).with_range(*position, length);
  std::shared_ptr<const zarr::OpenShard> done = std::move(open);
  shards.insert(number, done);
  return done;
}

}  // namespace headrace
