// ShardIndexFormat: parses the index of a shard, the positions of its inner chunks. ("v3/codecs/sharding-indexed" 1.0)
//
// Threads: immutable once parsed.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/chain.h"

namespace headrace::zarr {

struct ShardEntry {
  std::uint64_t offset = 0;  // from the start of the shard
  std::uint64_t length = 0;  // 0: the inner chunk is absent (fill value)
  bool operator==(const ShardEntry&) const = default;
};

// How index bytes become entries. One per array.
class ShardIndexFormat {
 public:
  // `index_chain` decodes a uint64 array of shape [inner grid..., 2].
  ShardIndexFormat(codec::Chain index_chain, std::uint64_t entry_count, bool at_end);

  std::uint64_t encoded_bytes() const noexcept { return chain_.max_encoded_bytes(); }
  // Memory that parse() takes besides its arguments.
  std::uint64_t parse_bytes() const noexcept {
    return 2 * entry_count_ * sizeof(std::uint64_t) + 2 * chain_.temporary_bytes();
  }
  std::uint64_t entry_count() const noexcept { return entry_count_; }
  // Position of the index in a shard of this size; kShort if the shard is smaller than its index.
  Result<std::uint64_t> position(std::uint64_t shard_bytes) const;

  // Parses the index and checks its own checksum and every entry: the range lies inside the shard without overflow, is
  // not half empty, and has at least one byte.
  Status parse(std::span<const std::byte> encoded, std::uint64_t shard_bytes, std::vector<ShardEntry>& entries) const;
  // The inverse of parse(). REQUIRES: one entry for each inner chunk.
  Result<std::vector<std::byte>> encode(std::span<const ShardEntry> entries) const;
  bool at_end() const noexcept { return at_end_; }

 private:
  codec::Chain chain_;
  std::uint64_t entry_count_;
  bool at_end_;
};

}  // namespace headrace::zarr
