// The inside of headrace::Array: metadata resolved into chains, and the cache of shard indexes.
#pragma once

#include <headrace/array.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/access.h"
#include "base/memory_budget.h"
#include "codec/chain.h"
#include "device/box.h"
#include "store/store.h"
#include "transfer/placement/placement.h"
#include "zarr/metadata/metadata.h"
#include "zarr/metadata/node_io.h"
#include "zarr/shard/chain_builder.h"
#include "zarr/shard/shard_cache.h"

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
  Status resolve_selection(const Selection& selection, ResolvedSelection& out) const;  // vectors keep their memory
  // What decodes a chunk of `shape`, read whole.
  Result<codec::Chain> build_chain_for(const std::vector<std::uint64_t>& shape) const;
  // Key of an object of this array, NUL-terminated, from the array's own relative key.
  void append_prefix(std::string& key) const {
    if (!path.empty()) {
      key += path;
      key += '/';
    }
  }
  // REQUIRES: sharding.
  zarr::ShardAccess shard_access() const { return {*Access::impl(store), sharding->indexes, shards, revalidate}; }

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
