#include <headrace/split.h>

#include <algorithm>

#include "base/checked.h"
#include "loader/sampling/sampling_parts.h"

namespace headrace {

using loader::refuse;

Result<Split> Split::create(const SplitOptions& options, std::uint64_t positions, std::uint64_t consumed) {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  if (options.world == 0) return refuse("world: no ranks");
  if (options.rank >= options.world) {
    return refuse("rank: " + number(options.rank) + ", but world is " + number(options.world));
  }
  if (options.reader_group == 0 || options.world % options.reader_group != 0) {
    return refuse("reader_group: " + number(options.reader_group) + " ranks, which do not divide world, " +
                  number(options.world));
  }
  if (options.batch_size == 0) return refuse("batch_size: no samples");
  if (options.tail > Tail::kWrap) return refuse("tail: not a value of Tail");
  if (positions == 0 || positions > loader::kMaxSamples)
    return refuse("positions: " + number(positions) + ", not 1 to 2^63");
  if (consumed > positions) {
    return refuse("consumed: " + number(consumed) + " positions, but an epoch has " + number(positions));
  }
  Split split;
  split.rank_ = options.rank;
  split.reader_group_ = options.reader_group;
  split.groups_ = options.world / options.reader_group;
  split.batch_ = options.batch_size;
  split.positions_ = positions;
  split.consumed_ = consumed;
  split.tail_ = options.tail;
  const auto global = base::checked_mul(options.batch_size, std::uint64_t{split.groups_});
  if (!global || *global > loader::kMaxSamples) {
    return refuse("batch_size: " + number(options.batch_size) + " samples in each of " + number(split.groups_) +
                  " reader groups are more than 2^63");
  }
  split.global_batch_ = *global;
  if (options.tail == Tail::kDrop && *global > positions) {
    return refuse("batch_size: all ranks together take " + number(*global) + " samples a batch (" +
                  number(options.batch_size) + " x " + number(split.groups_) + "), an epoch has " + number(positions) +
                  ", and tail is kDrop: no batch would ever be full");
  }
  return split;
}

std::uint64_t Split::batches() const noexcept {
  const std::uint64_t left = positions_ - consumed_;
  return tail_ == Tail::kDrop ? left / global_batch_ : base::ceil_div(left, global_batch_);
}

RankBatch Split::batch(std::uint64_t index) const noexcept {
  RankBatch batch;
  batch.size = batch.valid = batch_;
  batch.positions = positions_;
  const std::uint64_t begin = consumed_ + index * global_batch_;
  const std::uint64_t left = positions_ - begin;
  if (tail_ != Tail::kPad || left >= global_batch_) {
    batch.first = begin + group() * batch_;
    return batch;
  }
  const auto share_begin = [&](std::uint64_t which) {
    return static_cast<std::uint64_t>(static_cast<loader::U128>(left) * which / groups_);
  };
  batch.first = begin + share_begin(group());
  batch.valid = share_begin(group() + std::uint64_t{1}) - share_begin(group());
  return batch;
}

LoaderPosition Split::after(std::uint64_t done, std::uint64_t epoch) const noexcept {
  if (done >= batches()) return {epoch + 1, 0};
  return {epoch, consumed_ + done * global_batch_};
}

Result<Split::Share> Split::share(std::uint64_t extent, std::uint64_t align) const {
  if (align == 0) return refuse("align: 0");
  const std::uint64_t units = base::ceil_div(extent, align);
  if (units < reader_group_) {
    return refuse("extent: " + std::to_string(extent) + " elements in multiples of " + std::to_string(align) +
                  " cannot be divided among the " + std::to_string(reader_group_) + " ranks of a reader group");
  }
  const auto bound = [&](std::uint64_t which) {
    const auto unit = static_cast<std::uint64_t>(static_cast<loader::U128>(units) * which / reader_group_);
    return unit == units ? extent : unit * align;
  };
  const std::uint64_t begin = bound(member());
  return Share{begin, bound(member() + std::uint64_t{1}) - begin};
}

}  // namespace headrace
