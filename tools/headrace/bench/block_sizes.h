// BlockSizes: the block sizes of one direction: a fixed size, a range, or a weighted list.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::bench {

class BlockSizes {
 public:
  BlockSizes() : BlockSizes(4096) {}
  explicit BlockSizes(std::uint64_t bytes) : smallest_(bytes), largest_(bytes) {}

  // "4k", or "4k-64k": all multiples of the smallest size in that range.
  static Result<BlockSizes> parse_size_or_range(std::string_view text);
  // "4k/60:64k/40": sizes with shares in percent that add up to 100; sizes without a share divide the rest. At most 64
  // sizes.
  static Result<BlockSizes> parse_split(std::string_view text);

  std::uint64_t smallest() const noexcept { return smallest_; }
  std::uint64_t largest() const noexcept { return largest_; }
  bool fixed() const noexcept { return smallest_ == largest_; }
  // A common divisor of all possible sizes.
  std::uint64_t divisor(bool unaligned) const noexcept;
  // Picks a size by a random word. `unaligned`: any size of a range, not only multiples of the smallest.
  std::uint64_t pick(std::uint64_t random, bool unaligned) const noexcept;
  std::string text() const;  // "4KiB", "4KiB-64KiB"
  bool operator==(const BlockSizes&) const = default;

 private:
  struct Part {
    std::uint64_t bytes = 0;
    unsigned up_to = 0;  // cumulative share, in percent
    bool operator==(const Part&) const = default;
  };
  std::uint64_t smallest_, largest_;
  std::vector<Part> parts_;  // for a weighted list
};

}  // namespace headrace::bench
