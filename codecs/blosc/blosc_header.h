// BloscHeader: the validated header of a Blosc1 container.
//
// parse_blosc_header() checks all that can be checked before decoding: the fields, the container's own size, and that
// each block starts after the table of starts and inside the container.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <span>

namespace headrace::codec {

struct BloscHeader {
  enum class Inner : std::uint8_t { kBlosclz, kLz4, kSnappy, kZlib, kZstd };
  enum class Filter : std::uint8_t { kNone, kShuffle, kBitShuffle };

  static constexpr std::size_t kBytes = 16;
  static constexpr std::uint32_t kMaxSplits = 16;
  static constexpr std::uint32_t kMinSplitItems = 128;

  Inner inner = Inner::kBlosclz;
  Filter filter = Filter::kNone;
  bool stored = false;  // the decoded bytes follow the header unencoded
  bool may_split = false;
  std::uint32_t item_bytes = 1;
  std::uint32_t decoded_bytes = 0;
  std::uint32_t block_bytes = 0;  // > 0 unless decoded_bytes is 0
  std::uint32_t block_count = 0;  // 0 when stored

  // How many streams a block of `bytes` consists of. A short last block is never split.
  std::uint32_t splits(std::uint32_t bytes) const noexcept {
    const bool split =
        may_split && bytes == block_bytes && item_bytes <= kMaxSplits && block_bytes / item_bytes >= kMinSplitItems;
    return split ? item_bytes : 1;
  }
};

// Fails with kCorrupt, or with kUnsupported for Blosc2 containers and inner codecs without a number in Blosc1.
Status parse_blosc_header(std::span<const std::byte> container, BloscHeader& header) noexcept;
// The same for a container of `bytes`, given only its beginning. Also fails with kCorrupt if `table` ends before the
// table of starts does.
Status parse_blosc_table(std::span<const std::byte> table, std::uint64_t bytes, BloscHeader& header) noexcept;

inline std::uint32_t blosc_u32(const std::byte* at) noexcept {
  return std::to_integer<std::uint32_t>(at[0]) | std::to_integer<std::uint32_t>(at[1]) << 8 |
         std::to_integer<std::uint32_t>(at[2]) << 16 | std::to_integer<std::uint32_t>(at[3]) << 24;
}

}  // namespace headrace::codec
