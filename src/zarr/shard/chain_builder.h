// From codec specifications in metadata to a codec::Chain; the place where sharding meets the codec table.
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
// Each codec may add to what the stored bytes can be at most, so a list without an end would overflow the sizes.
inline constexpr std::size_t kMaxCodecs = 64;

// What encodes chunks of one shape: used for an array's chunks, for a shard's inner chunks, and again inside those.
struct ChunkCodecs {
  int zarr_format = 3;
  const DataType* dtype = nullptr;
  const std::vector<std::byte>* fill = nullptr;     // one element, decoded form
  codec::Layout initial;                            // v2: order and byte order
  std::shared_ptr<base::MemoryBudget> memory = {};  // of indexes that are decoded with their shards; null: no limit
};

// The inside of a sharding_indexed codec.
struct Sharding {
  std::vector<std::uint64_t> inner_shape;
  std::vector<std::uint64_t> inner_grid;  // inner chunks per shard along each axis
  codec::Chain inner;
  ShardIndexFormat index;
};

// Shards of which only what is selected is read, at every level: chains of array -> array codecs that only move axes,
// then sharding_indexed with nothing behind it, and maybe the same again inside.
struct ShardTree {
  // By level, outermost first: the inner chunks by the array's own axes, and the index that leads to them.
  std::vector<LevelGrid> grids;
  std::vector<ShardIndexFormat> indexes;
  codec::Chain inner;                       // of the smallest chunks, in terms of the axes that it is given
  std::vector<std::int64_t> strides_bytes;  // of one of them, decoded, along each axis of the array
};

Result<codec::Chain> build_chain(const std::vector<CodecSpec>& specs, const std::vector<std::uint64_t>& chunk_shape,
                                 const ChunkCodecs& about, int depth = 0);
Result<std::unique_ptr<Sharding>> build_sharding(const base::Json& config,
                                                 const std::vector<std::uint64_t>& shard_shape,
                                                 const ChunkCodecs& about, int depth);
// Null where a stored chunk has to be decoded as a whole.
Result<std::unique_ptr<ShardTree>> build_shard_tree(const std::vector<CodecSpec>& specs,
                                                    const std::vector<std::uint64_t>& chunk_shape,
                                                    const ChunkCodecs& about);

}  // namespace headrace::zarr
