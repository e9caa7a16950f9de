#include "loader/sampling/block_grid.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/checked.h"

namespace headrace::loader {

Result<BlockGrid> BlockGrid::create(const BlockShuffle& options) {
  const std::size_t axes = options.grid.size();
  if (axes > kMaxAxes) return refuse("grid: " + std::to_string(axes) + " dimensions, at most 33");
  if (options.group.size() != axes) {
    return refuse("group: " + std::to_string(options.group.size()) + " dimensions, but grid has " +
                  std::to_string(axes));
  }
  if (options.groups_in_buffer == 0) return refuse("groups_in_buffer: 0");
  BlockGrid grid;
  grid.axes_.resize(axes);
  std::optional<std::uint64_t> samples = 1;
  for (std::size_t i = axes; i-- > 0;) {
    if (options.grid[i] == 0) return refuse("grid: no samples along dimension " + std::to_string(i));
    if (options.group[i] == 0) return refuse("group: 0 along dimension " + std::to_string(i));
    grid.axes_[i] = {options.grid[i], std::min(options.group[i], options.grid[i]), *samples};
    grid.group_size_ *= grid.axes_[i].group;  // at most `samples`
    samples = base::checked_mul(*samples, options.grid[i]);
    if (!samples || *samples > kMaxSamples) return refuse("grid: more than 2^63 samples");
  }
  grid.samples_ = *samples;
  grid.groups_ = base::ceil_div(grid.samples_, grid.group_size_);
  grid.groups_in_buffer_ = std::min(options.groups_in_buffer, grid.groups_);
  if (options.partitions == 0) return refuse("partitions: 0");
  if (options.partitions > grid.groups_) {
    return refuse("partitions: " + std::to_string(options.partitions) + ", but the samples have only " +
                  std::to_string(grid.groups_) + " groups that share chunks");
  }
  if (options.partition_run == 0) return refuse("partition_run: 0");
  grid.partitions_ = options.partitions;
  grid.partition_run_ = options.partition_run;
  return grid;
}

BlockGrid::Partition BlockGrid::partition(std::uint64_t number) const noexcept {
  const auto begin = [&](std::uint64_t which) {
    return static_cast<std::uint64_t>(static_cast<U128>(groups_) * which / partitions_);
  };
  return {begin(number), begin(number + 1) - begin(number)};
}

std::uint64_t BlockGrid::partition_of(std::uint64_t place) const noexcept {
  // The largest number whose partition begins at or before `place`.
  return static_cast<std::uint64_t>(((static_cast<U128>(place) + 1) * partitions_ - 1) / groups_);
}

BlockGrid::PartitionPlace BlockGrid::partition_place(std::uint64_t position,
                                                     std::uint64_t short_partition) const noexcept {
  // Partitions have `fewest` groups, or one more.
  const std::uint64_t fewest = groups_ / partitions_;
  const std::uint64_t smallest =
      std::min(fewest * group_size_, partition(short_partition).groups * group_size_ - lacking());
  const std::uint64_t in_turns = smallest / partition_run_ * partition_run_;  // of each partition
  if (position < in_turns * partitions_) {
    const std::uint64_t run = position / partition_run_;
    return {run % partitions_, run / partitions_ * partition_run_ + position % partition_run_};
  }
  position -= in_turns * partitions_;
  const auto begin_of = [&](std::uint64_t number) {
    return partition(number).first * group_size_ - (number > short_partition ? lacking() : 0) - number * in_turns;
  };
  std::uint64_t low = 0, high = partitions_;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (begin_of(middle) <= position ? low : high) = middle;
  }
  return {low, in_turns + position - begin_of(low)};
}

BlockGrid::Place BlockGrid::shuffled_place(std::uint64_t position, const Ranks& ranks,
                                           const RoundKeys& buffer_keys) const noexcept {
  // Ranks after the short group begin earlier by the samples that it lacks.
  const auto begin_of = [&](std::uint64_t rank) {
    return rank * group_size_ - (rank > ranks.short_rank ? lacking() : 0);
  };
  std::uint64_t buffer = position / (group_size_ * groups_in_buffer_);
  // Behind the short group, the next buffer may begin earlier than that.
  if ((buffer + 1) * groups_in_buffer_ < ranks.groups && position >= begin_of((buffer + 1) * groups_in_buffer_)) {
    ++buffer;
  }
  const std::uint64_t first_rank = buffer * groups_in_buffer_;
  const std::uint64_t end_rank = std::min(ranks.groups, first_rank + groups_in_buffer_);
  const std::uint64_t begin = begin_of(first_rank), end = begin_of(end_rank);
  const std::uint64_t at = begin + Permutation(end - begin, keys_of(buffer_keys, buffer))(position - begin);
  std::uint64_t rank = at / group_size_;
  if (rank + 1 < ranks.groups && at >= begin_of(rank + 1)) ++rank;
  return {rank, at - begin_of(rank)};
}

std::uint64_t BlockGrid::sample(std::uint64_t group, std::uint64_t place) const noexcept {
  return from_line(group * group_size_ + place);
}

std::uint64_t BlockGrid::from_line(std::uint64_t at) const noexcept {
  // Finds the box axis by axis. `row` is the number of samples in one box of this axis, inside the boxes found so far;
  // `sides` is the product of their sides.
  std::array<std::uint64_t, kMaxAxes> first{}, side{};
  std::uint64_t sides = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    const std::uint64_t row = sides * axis.group * axis.after;
    const std::uint64_t box = at / row;
    at -= box * row;
    first[i] = box * axis.group;
    side[i] = std::min(axis.group, axis.samples - first[i]);
    sides *= side[i];
  }
  std::uint64_t sample = 0;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    sample += (first[i] + at % side[i]) * axes_[i].after;
    at /= side[i];
  }
  return sample;
}

void BlockGrid::add_to(Digest& digest) const noexcept {
  for (const Axis& axis : axes_) digest.add(axis.samples).add(axis.group);
  digest.add(groups_in_buffer_);
  if (partitions_ > 1) digest.add(partitions_).add(partition_run_);
}

}  // namespace headrace::loader
