// BlockPattern: bytes repeated over a block, like fio's buffer_pattern and verify_pattern.
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
  std::vector<std::size_t> offset_at;  // where 8 bytes are replaced by the block's offset, little-endian

  bool empty() const { return bytes.empty(); }
  bool operator==(const BlockPattern&) const = default;
};

// A sequence of: 0xdeadbeef (its bytes in that order), 170 (a 32-bit number, little-endian), "text", %o (the block's
// offset). kInvalidArgument if it is malformed or longer than 512 bytes.
Result<BlockPattern> parse_pattern(std::string_view text);

// REQUIRES: a non-empty pattern.
void fill_with_pattern(std::span<std::byte> block, const BlockPattern& pattern, std::uint64_t offset);

}  // namespace headrace::bench
