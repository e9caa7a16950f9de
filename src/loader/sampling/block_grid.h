// BlockGrid: samples in groups that share chunks, and the meaning of a block shuffle's positions, in constant memory.
#pragma once

#include <headrace/order.h>
#include <headrace/status.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "loader/sampling/permutation.h"
#include "loader/sampling/sampling_parts.h"

namespace headrace::loader {

// The samples form a line: one box of `group` after another along the axes, the last axis fastest, and in the same
// order inside a box. Boxes at the ends of the axes are smaller. A group is `group_size()` consecutive samples of the
// line; only the last may have fewer.
//
// An order permutes the groups; a group's place in that permutation is its rank. A buffer is `groups_in_buffer`
// consecutive ranks.
//
// Threads: immutable.
class BlockGrid {
 public:
  BlockGrid() = default;
  // kInvalidArgument names the parameter. Throws std::bad_alloc.
  static Result<BlockGrid> create(const BlockShuffle& options);

  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t groups() const noexcept { return groups_; }
  std::uint64_t group_size() const noexcept { return group_size_; }
  std::uint64_t groups_in_buffer() const noexcept { return groups_in_buffer_; }

  struct Place {
    std::uint64_t rank, place;  // rank of a group, place in the group
  };
  // What is at `position` after each buffer is permuted. short_rank: the rank of the last group.
  Place shuffled_place(std::uint64_t position, std::uint64_t short_rank, const RoundKeys& buffer_keys) const noexcept;
  std::uint64_t sample(std::uint64_t group, std::uint64_t place) const noexcept;

  void add_to(Digest& digest) const noexcept;

 private:
  struct Axis {
    std::uint64_t samples = 1, group = 1;
    std::uint64_t after = 1;  // product of the samples of the axes after this one
  };
  static constexpr std::size_t kMaxAxes = 33;

  std::uint64_t from_line(std::uint64_t at) const noexcept;

  std::vector<Axis> axes_;
  std::uint64_t samples_ = 1, group_size_ = 1, groups_ = 1, groups_in_buffer_ = 1;
};

}  // namespace headrace::loader
