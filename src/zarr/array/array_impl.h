// The implementation of headrace::Array: metadata resolved into chains, and the cache of shard indexes.
#pragma once

#include <headrace/array.h>

#include <array>
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
#include "transfer/plan/group_cost.h"
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
  // Block items of a selection refer to this array's grid.
  Result<ResolvedSelection> resolve_selection(const Selection& selection) const;
  Status resolve_selection(const Selection& selection, ResolvedSelection& out) const;  // reuses out's vectors
  // Builds the chain that decodes a whole chunk of `shape`.
  Result<codec::Chain> build_chain_for(const std::vector<std::uint64_t>& shape) const;
  // Appends the array's path and a slash; the keys of its objects begin with these.
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
  std::optional<codec::Chain> chain;          // of one stored chunk, if it is read whole
  std::unique_ptr<zarr::ShardTree> sharding;  // set instead if inner chunks are read one by one
  DataType decoded;                           // type of a chain's decoded elements
  std::vector<std::byte> fill;                // one element
  device::ElementOp element_op;
  std::vector<std::uint64_t> grid;  // stored chunks (shards) along each axis
  ArrayInfo info;
  mutable zarr::ShardCache shards;
  mutable transfer::PlacementMemory placement;
  const std::array<std::shared_ptr<transfer::GroupCost>, 2> group_costs{
      std::make_shared<transfer::GroupCost>(), std::make_shared<transfer::GroupCost>()};  // of host and staged devices
  bool revalidate = false;                                                                // OpenOptions
  base::Charge memory;                                                                    // of the metadata
  std::uint64_t index_array = 0;  // number in the Context's IndexCache

  const codec::Chain& unit_chain() const noexcept { return sharding ? sharding->inner : *chain; }
  // Shape of the unit that is read and decoded at a time.
  const std::vector<std::uint64_t>& unit_shape() const noexcept {
    return sharding ? sharding->grids.back().shape : metadata.chunk_shape;
  }
  // Strides of a decoded unit along each axis of the array.
  const std::vector<std::int64_t>& unit_strides() const noexcept {
    return sharding ? sharding->strides_bytes : chain->strides_bytes();
  }
};
