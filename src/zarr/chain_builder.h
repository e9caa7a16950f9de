// From codec specifications in metadata to a codec::Chain; the place where sharding meets the codec table.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "codec/chain.h"
#include "zarr/metadata.h"
#include "zarr/shard_index.h"

namespace headrace::zarr {

inline constexpr int kMaxShardingDepth = 8;
// Each codec may add to what the stored bytes can be at most, so a list without an end would overflow the sizes.
inline constexpr std::size_t kMaxCodecs = 64;

// What encodes chunks of one shape: used for an array's chunks, for a shard's inner chunks, and again inside those.
struct ChunkCodecs {
  int zarr_format = 3;
  const DataType* dtype = nullptr;
  const std::vector<std::byte>* fill = nullptr;  // one element, decoded form
  codec::Layout initial;                         // v2: order and byte order
};

// The inside of a sharding_indexed codec.
struct Sharding {
  std::vector<std::uint64_t> inner_shape;
  std::vector<std::uint64_t> inner_grid;  // inner chunks per shard along each axis
  codec::Chain inner;
  ShardIndexFormat index;
};

Result<codec::Chain> build_chain(const std::vector<CodecSpec>& specs, const std::vector<std::uint64_t>& chunk_shape,
                                 const ChunkCodecs& about, int depth = 0);
Result<std::unique_ptr<Sharding>> build_sharding(const base::Json& config,
                                                 const std::vector<std::uint64_t>& shard_shape,
                                                 const ChunkCodecs& about, int depth);

}  // namespace headrace::zarr
