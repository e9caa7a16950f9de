// The inside of headrace::Array: metadata resolved into chains, and the cache of shard indexes.
#pragma once

#include <headrace/array.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codec/chain.h"
#include "device/box.h"
#include "store/store.h"
#include "transfer/placement.h"
#include "zarr/chain_builder.h"
#include "zarr/metadata.h"
#include "zarr/node_io.h"

namespace headrace::zarr {

// A shard that is open and whose index has been read and checked.
struct OpenShard {
  std::string key;
  std::shared_ptr<store::Object> object;
  std::vector<ShardEntry> entries;
};

// Keeps the shards used last, so that reads one after another parse an index once. An open shard keeps describing the
// file it was read from, even when the file is replaced meanwhile.
//
// Threads: every call from any thread.
class ShardCache {
 public:
  std::shared_ptr<const OpenShard> find(std::uint64_t shard);
  void insert(std::uint64_t shard, std::shared_ptr<const OpenShard> open);

 private:
  static constexpr std::size_t kMaxShards = 64;                     // open files
  static constexpr std::size_t kMaxEntries = std::size_t{4} << 20;  // 16 bytes each
  struct Item {
    std::uint64_t shard;
    std::shared_ptr<const OpenShard> open;
  };
  std::mutex mutex_;
  std::list<Item> items_;                                                  // most recent first; guarded by mutex_
  std::unordered_map<std::uint64_t, std::list<Item>::iterator> by_shard_;  // guarded by mutex_
  std::size_t entries_ = 0;                                                // guarded by mutex_
};

}  // namespace headrace::zarr

class headrace::Array::Impl {
 public:
  Impl(Store owner, std::string node_path) : store(std::move(owner)), path(std::move(node_path)) {}

  // An array from its metadata. kInvalidArgument if the node is a group.
  static Result<Array> make(const Store& store, std::string path, zarr::LoadedNode node);

  // Builds chains and ArrayInfo from `metadata`.
  Status resolve();
  // What decodes a chunk of `shape`, read whole.
  Result<codec::Chain> build_chain_for(const std::vector<std::uint64_t>& shape) const;
  // Key of an object of this array, NUL-terminated, from the array's own relative key.
  void append_prefix(std::string& key) const {
    if (!path.empty()) {
      key += path;
      key += '/';
    }
  }
  Result<std::shared_ptr<const zarr::OpenShard>> open_shard(const std::string& key, std::uint64_t shard_number) const;

  const Store store;
  const std::string path;
  zarr::ArrayMetadata metadata;
  std::optional<codec::Chain> chain;         // of one stored chunk, where it is read whole
  std::unique_ptr<zarr::Sharding> sharding;  // set instead: inner chunks are read one by one
  std::vector<std::byte> fill;               // one element
  device::ElementOp element_op;
  std::vector<std::uint64_t> grid;  // stored chunks (shards) along each axis
  ArrayInfo info;
  mutable zarr::ShardCache shards;
  mutable transfer::PlacementMemory placement;

  const codec::Chain& unit_chain() const noexcept { return sharding ? sharding->inner : *chain; }
  // Shape of what is read and decoded at a time.
  const std::vector<std::uint64_t>& unit_shape() const noexcept {
    return sharding ? sharding->inner_shape : metadata.chunk_shape;
  }
};
