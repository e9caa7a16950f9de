// BlockPattern: bytes that are repeated over a block, as fio's buffer_pattern and verify_pattern have them.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::bench {

struct BlockPattern {
  std::string bytes;
  std::vector<std::size_t> offset_at;  // where 8 of them are the block's offset, little-endian

  bool empty() const { return bytes.empty(); }
  bool operator==(const BlockPattern&) const = default;
};

// Parts one behind the other: 0xdeadbeef (its bytes in that order), 170 (a number of 32 bits, its lowest bytes first),
// "text", %o (the block's offset). kInvalidArgument; at most 512 bytes.
Result<BlockPattern> parse_pattern(std::string_view text);

// REQUIRES: a pattern that is not empty.
void fill_with_pattern(std::span<std::byte> block, const BlockPattern& pattern, std::uint64_t offset);

}  // namespace headrace::bench
