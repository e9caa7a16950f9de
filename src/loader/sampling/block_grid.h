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
// consecutive ranks. With several partitions, each is a part of a first permutation of the groups, with an order of its
// own.
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
  std::uint64_t partitions() const noexcept { return partitions_; }

  // Places in a permutation of all groups.
  struct Partition {
    std::uint64_t first, groups;
  };
  // REQUIRES: number < partitions().
  Partition partition(std::uint64_t number) const noexcept;
  std::uint64_t partition_of(std::uint64_t place) const noexcept;
  struct PartitionPlace {
    std::uint64_t partition, position;  // position in that partition
  };
  // What is at `position` of all. short_partition: the one that has the last group.
  PartitionPlace partition_place(std::uint64_t position, std::uint64_t short_partition) const noexcept;

  // Groups in an order of their own: all, or those of one partition. short_rank: of the last group; `groups` if it is
  // elsewhere.
  struct Ranks {
    std::uint64_t groups, short_rank;
  };
  struct Place {
    std::uint64_t rank, place;  // rank of a group, place in the group
  };
  // What is at `position` after each buffer is permuted.
  Place shuffled_place(std::uint64_t position, const Ranks& ranks, const RoundKeys& buffer_keys) const noexcept;
  std::uint64_t sample(std::uint64_t group, std::uint64_t place) const noexcept;

  void add_to(Digest& digest) const noexcept;

 private:
  struct Axis {
    std::uint64_t samples = 1, group = 1;
    std::uint64_t after = 1;  // product of the samples of the axes after this one
  };
  static constexpr std::size_t kMaxAxes = 33;

  std::uint64_t from_line(std::uint64_t at) const noexcept;
  // How many samples the last group lacks.
  std::uint64_t lacking() const noexcept { return groups_ * group_size_ - samples_; }

  std::vector<Axis> axes_;
  std::uint64_t samples_ = 1, group_size_ = 1, groups_ = 1, groups_in_buffer_ = 1, partitions_ = 1, partition_run_ = 1;
};

}  // namespace headrace::loader
