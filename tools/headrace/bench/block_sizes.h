// BlockSizes: how large the blocks of one direction are: all the same, drawn from a range, or from a list with shares.
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

  // "4k", or "4k-64k": any multiple of the smallest in between.
  static Result<BlockSizes> parse_size_or_range(std::string_view text);
  // "4k/60:64k/40": shares in percent that add up to 100; those left out share what is left. At most 64 sizes.
  static Result<BlockSizes> parse_split(std::string_view text);

  std::uint64_t smallest() const noexcept { return smallest_; }
  std::uint64_t largest() const noexcept { return largest_; }
  bool fixed() const noexcept { return smallest_ == largest_; }
  // Every size is a multiple of this.
  std::uint64_t divisor(bool unaligned) const noexcept;
  // A size by a random word. `unaligned`: a range then has every size, not multiples of the smallest alone.
  std::uint64_t pick(std::uint64_t random, bool unaligned) const noexcept;
  std::string text() const;  // "4KiB", "4KiB-64KiB"
  bool operator==(const BlockSizes&) const = default;

 private:
  struct Part {
    std::uint64_t bytes = 0;
    unsigned up_to = 0;  // sum of the shares to here, in percent
    bool operator==(const Part&) const = default;
  };
  std::uint64_t smallest_, largest_;
  std::vector<Part> parts_;  // of a split
};

}  // namespace headrace::bench
