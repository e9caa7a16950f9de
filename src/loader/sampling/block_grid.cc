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
  return grid;
}

BlockGrid::Place BlockGrid::shuffled_place(std::uint64_t position, std::uint64_t short_rank,
                                           const RoundKeys& buffer_keys) const noexcept {
  // Ranks after the short group begin earlier by the samples that it lacks.
  const std::uint64_t lacking = groups_ * group_size_ - samples_;
  const auto begin_of = [&](std::uint64_t rank) { return rank * group_size_ - (rank > short_rank ? lacking : 0); };
  std::uint64_t buffer = position / (group_size_ * groups_in_buffer_);
  // Behind the short group, the next buffer may begin earlier than that.
  if ((buffer + 1) * groups_in_buffer_ < groups_ && position >= begin_of((buffer + 1) * groups_in_buffer_)) ++buffer;
  const std::uint64_t first_rank = buffer * groups_in_buffer_;
  const std::uint64_t end_rank = std::min(groups_, first_rank + groups_in_buffer_);
  const std::uint64_t begin = begin_of(first_rank), end = begin_of(end_rank);
  const std::uint64_t at = begin + Permutation(end - begin, keys_of(buffer_keys, buffer))(position - begin);
  std::uint64_t rank = at / group_size_;
  if (rank + 1 < groups_ && at >= begin_of(rank + 1)) ++rank;
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
}

}  // namespace headrace::loader
