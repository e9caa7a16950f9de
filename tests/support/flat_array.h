// FlatArray: a one-dimensional uint32 array in each layout that takes a different path through a read.
#pragma once

#include <blosc.h>
#include <bzlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "store/store.h"
#include "support/raw_array.h"

namespace headrace::testing {

// kBz2: a codec without device code.
enum class Layout : std::uint8_t { kRaw, kZstd, kBlosc, kShardedRaw, kShardedZstd, kBz2 };
inline constexpr Layout kLayouts[] = {Layout::kRaw, Layout::kZstd, Layout::kBlosc, Layout::kShardedRaw,
                                      Layout::kShardedZstd};

inline const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::kRaw:
      return "raw";
    case Layout::kZstd:
      return "zstd";
    case Layout::kBlosc:
      return "blosc_lz4";
    case Layout::kShardedRaw:
      return "sharded_raw";
    case Layout::kShardedZstd:
      return "sharded_zstd";
    case Layout::kBz2:
      return "bz2";
  }
  return "?";
}

struct FlatArray {
  Layout layout = Layout::kRaw;
  std::uint64_t chunks = 1;
  std::uint64_t chunk_elements = 64;
  std::uint64_t shard_chunks = 64;  // inner chunks of a shard
  std::uint32_t seed = 1;

  std::uint64_t elements() const { return chunks * chunk_elements; }
  bool sharded() const { return layout == Layout::kShardedRaw || layout == Layout::kShardedZstd; }
  std::vector<std::uint32_t> expected() const { return values(0, elements()); }
  // `count` elements from `first` on.
  std::vector<std::uint32_t> values(std::uint64_t first, std::uint64_t count) const;
  // Key of the object that contains chunk `number`, relative to the array.
  std::string key(std::uint64_t number) const {
    return sharded() ? "c/" + std::to_string(number / shard_chunks) : std::to_string(number);
  }
  std::string metadata_key() const { return sharded() ? "zarr.json" : ".zarray"; }
  std::string metadata() const;
  // The stored bytes of one chunk (inner chunk).
  store::Bytes encoded(std::uint64_t number) const;
};

// The index of a shard made by write_flat_array(): (offset, length) of each inner chunk, from the last bytes of the
// shard.
store::Bytes flat_shard(const FlatArray& array, std::uint64_t shard);

Status write_flat_array(store::Store& store, const std::string& path, const FlatArray& array);

}  // namespace headrace::testing
