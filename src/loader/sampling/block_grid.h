// BlockGrid: samples in groups that share chunks, and what a position of a block shuffle means, in constant memory.
#pragma once

#include <headrace/order.h>
#include <headrace/status.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "loader/sampling/permutation.h"
#include "loader/sampling/sampling_parts.h"

namespace headrace::loader {

// Samples have a line: box by box of `group` along the axes, the last axis fastest, and inside a box likewise. Boxes at
// the ends of the axes are smaller. A group is `group_size()` consecutive samples of the line; only the last has fewer.
//
// In an order, groups come by rank. A buffer is `groups_in_buffer` consecutive ranks.
//
// Threads: immutable.
class BlockGrid {
 public:
  BlockGrid() = default;
  // kInvalidArgument naming the parameter. Throws std::bad_alloc.
  static Result<BlockGrid> create(const BlockShuffle& options);

  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t groups() const noexcept { return groups_; }
  std::uint64_t group_size() const noexcept { return group_size_; }
  std::uint64_t groups_in_buffer() const noexcept { return groups_in_buffer_; }

  struct Place {
    std::uint64_t rank, place;  // of a group; in the group
  };
  // What comes at `position` once each buffer is permuted. short_rank: that of the last group.
  Place shuffled_place(std::uint64_t position, std::uint64_t short_rank, const RoundKeys& buffer_keys) const noexcept;
  std::uint64_t sample(std::uint64_t group, std::uint64_t place) const noexcept;

  void add_to(Digest& digest) const noexcept;

 private:
  struct Axis {
    std::uint64_t samples = 1, group = 1;
    std::uint64_t after = 1;  // samples of the axes after this one, multiplied
  };
  static constexpr std::size_t kMaxAxes = 33;

  std::uint64_t from_line(std::uint64_t at) const noexcept;

  std::vector<Axis> axes_;
  std::uint64_t samples_ = 1, group_size_ = 1, groups_ = 1, groups_in_buffer_ = 1;
};

}  // namespace headrace::loader
