// Builds a codec::Chain from codec specifications in metadata. Sharding and the codec table meet here.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "codec/chain.h"
#include "zarr/grid/footprint.h"
#include "zarr/metadata/metadata.h"
#include "zarr/shard/shard_index.h"

namespace headrace::zarr {

inline constexpr std::uint64_t kMaxUnitsPerShard = std::uint64_t{1} << 56;
// Each codec may raise the bound on the stored bytes, so an unlimited list would overflow the sizes.
inline constexpr std::size_t kMaxCodecs = 64;

// What is needed to build a chain for chunks of one shape: an array's chunks, a shard's inner chunks, and chunks inside
// those.
struct ChunkCodecs {
  int zarr_format = 3;
  const DataType* dtype = nullptr;
  const std::vector<std::byte>* fill = nullptr;     // one element, decoded form
  codec::Layout initial;                            // v2: order and byte order
  std::shared_ptr<base::MemoryBudget> memory = {};  // for indexes decoded with their shards; null: no limit
};

// The inside of a sharding_indexed codec.
struct Sharding {
  std::vector<std::uint64_t> inner_shape;
  std::vector<std::uint64_t> inner_grid;  // inner chunks per shard along each axis
  codec::Chain inner;
  ShardIndexFormat index;
};

// Shards of which only the selected parts are read, at every level. The chain has array -> array codecs that only move
// axes, then sharding_indexed and nothing after it; the inner chunks may be sharded the same way.
struct ShardTree {
  // By level, outermost first: the inner chunks by the array's own axes, and the index that leads to them.
  std::vector<LevelGrid> grids;
  std::vector<ShardIndexFormat> indexes;
  codec::Chain inner;                       // of the smallest chunks, in terms of the axes that enter it
  std::vector<std::int64_t> strides_bytes;  // of one decoded smallest chunk, along each axis of the array
};

Result<codec::Chain> build_chain(const std::vector<CodecSpec>& specs, const std::vector<std::uint64_t>& chunk_shape,
                                 const ChunkCodecs& about, int depth = 0);
Result<std::unique_ptr<Sharding>> build_sharding(const base::Json& config,
                                                 const std::vector<std::uint64_t>& shard_shape,
                                                 const ChunkCodecs& about, int depth);
// Null if a stored chunk must be decoded as a whole.
Result<std::unique_ptr<ShardTree>> build_shard_tree(const std::vector<CodecSpec>& specs,
                                                    const std::vector<std::uint64_t>& chunk_shape,
                                                    const ChunkCodecs& about);

}  // namespace headrace::zarr
