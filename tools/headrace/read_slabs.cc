#include "read_slabs.h"

#include <algorithm>
#include <utility>

#include "cli_common.h"

namespace headrace::cli {
namespace {

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? UINT64_MAX : out;
}

}  // namespace

ReadSlabs::ReadSlabs(const ArrayInfo& info, Selection selection, ResolvedSelection resolved, std::uint64_t item_bytes,
                     std::uint64_t budget_bytes, bool in_order)
    : selection_(std::move(selection)),
      resolved_(std::move(resolved)),
      budget_bytes_(budget_bytes),
      variable_(info.dtype.is_variable_length()),
      in_order_(in_order || variable_),
      item_bytes_(std::max<std::uint64_t>(1, item_bytes)) {
  const std::uint64_t total = decoded_bytes(resolved_.shape, 1).value_or(UINT64_MAX);
  max_bytes_ = product(total, item_bytes_);
  // The size of variable-length elements is not known yet and may exceed one part.
  one_ =
      resolved_.shape.empty() || total == 0 || budget_bytes == UINT64_MAX || (max_bytes_ <= budget_bytes && !variable_);
  if (one_) return;
  if (resolved_.points) {
    axes_.push_back({.count = resolved_.shape[0], .row = 1});
  } else {
    // If a shard exceeds the budget, its inner chunks are read individually. If they vary in shape, some are decoded
    // twice.
    const bool shards = !variable_ && !info.shard_shape.empty() &&
                        decoded_bytes(info.shard_shape, info.dtype.item_bytes).value_or(UINT64_MAX) <= budget_bytes;
    const std::vector<std::uint64_t>& cell = shards ? info.shard_shape : info.chunk_shape;
    for (std::size_t d = 0; d < resolved_.dims.size(); ++d) {
      if (resolved_.dims[d].dropped) continue;
      axes_.push_back({.dim = d, .count = resolved_.dims[d].count, .cell = cell[d]});
      measure(axes_.back());
    }
  }
  choose_parts();
}

std::uint64_t ReadSlabs::cell_of(const Axis& axis, std::uint64_t i) const {
  const ResolvedSelection::Dim& dim = resolved_.dims[axis.dim];
  return (dim.list != nullptr ? (*dim.list)[static_cast<std::size_t>(i)] : dim.start + i * dim.step) / axis.cell;
}

void ReadSlabs::measure(Axis& axis) const {
  const ResolvedSelection::Dim& dim = resolved_.dims[axis.dim];
  if (dim.list == nullptr) {
    axis.row = std::min(axis.count, (axis.cell - 1) / dim.step + 1);
    return;
  }
  std::uint64_t begin = 0;
  for (std::uint64_t i = 1; i <= axis.count; ++i) {
    if (i < axis.count && cell_of(axis, i) == cell_of(axis, begin)) continue;
    axis.row = std::max(axis.row, i - begin);
    begin = i;
  }
}

std::uint64_t ReadSlabs::chunk_bytes() const {
  std::uint64_t bytes = item_bytes_;
  for (const Axis& axis : axes_) bytes = product(bytes, axis.cell > 0 ? std::min(axis.row, axis.cell) : 1);
  return bytes;
}

void ReadSlabs::choose_parts() {
  const std::uint64_t budget = std::max(budget_bytes_, chunk_bytes());
  const auto behind = [&](std::size_t axis) {
    std::uint64_t bytes = item_bytes_;
    while (++axis < axes_.size()) bytes = product(bytes, axes_[axis].count);
    return bytes;
  };
  std::uint64_t before = 1;
  for (cut_axis_ = 0; cut_axis_ + 1 < axes_.size(); ++cut_axis_) {
    Axis& axis = axes_[cut_axis_];
    const std::uint64_t least = in_order_ ? 1 : product(before, axis.row);
    if (product(least, behind(cut_axis_)) <= budget) break;
    axis.most = in_order_ ? 1 : axis.row;
    before = product(before, axis.most);
  }
  // Lists may repeat indices of the same chunk any number of times.
  while (product(before, behind(cut_axis_)) > budget) {
    const auto largest = std::max_element(axes_.begin(), axes_.begin() + static_cast<std::ptrdiff_t>(cut_axis_),
                                          [](const Axis& a, const Axis& b) { return a.most < b.most; });
    if (largest == axes_.begin() + static_cast<std::ptrdiff_t>(cut_axis_) || largest->most <= 1) break;
    largest->most /= 2;
    before = 1;
    for (std::size_t a = 0; a < cut_axis_; ++a) before = product(before, axes_[a].most);
  }
  const std::uint64_t row_bytes = product(before, behind(cut_axis_));
  Axis& cut = axes_[cut_axis_];
  cut.most = std::clamp<std::uint64_t>(budget / row_bytes, 1, cut.count);
  max_bytes_ = product(cut.most, row_bytes);
}

// Returns the position after the last element in the same cell as element `at`.
std::uint64_t ReadSlabs::end_of_row(const Axis& axis) const {
  if (axis.cell == 0) return axis.count;
  const ResolvedSelection::Dim& dim = resolved_.dims[axis.dim];
  if (dim.list == nullptr) {
    const std::uint64_t left = axis.cell - (dim.start + axis.at * dim.step) % axis.cell;
    return std::min(axis.count, axis.at + (left - 1) / dim.step + 1);
  }
  std::uint64_t end = axis.at + 1;
  while (end < axis.count && cell_of(axis, end) == cell_of(axis, axis.at)) ++end;
  return end;
}

// The last start of a cell at or before `to`; `to` itself if there is none after `at`.
std::uint64_t ReadSlabs::last_boundary(const Axis& axis, std::uint64_t to) const {
  if (axis.cell == 0 || to >= axis.count) return to;
  const ResolvedSelection::Dim& dim = resolved_.dims[axis.dim];
  std::uint64_t begin = to;
  if (dim.list == nullptr) {
    const std::uint64_t into = (dim.start + to * dim.step) % axis.cell;
    begin = to - std::min(to, into / dim.step);
  } else {
    while (begin > axis.at && cell_of(axis, begin - 1) == cell_of(axis, to)) --begin;
  }
  return begin > axis.at ? begin : to;
}

void ReadSlabs::begin_part(std::size_t index) {
  Axis& axis = axes_[index];
  if (index > cut_axis_) {
    axis.to = axis.count;
  } else if (index == cut_axis_) {
    axis.to = last_boundary(axis, axis.count - axis.at > axis.most ? axis.at + axis.most : axis.count);
  } else {
    axis.to = std::min(end_of_row(axis), axis.count - axis.at > axis.most ? axis.at + axis.most : axis.count);
  }
}

Selection ReadSlabs::part() const {
  if (resolved_.points) {
    std::vector<std::vector<std::int64_t>> coordinates;
    for (const ResolvedSelection::Dim& dim : resolved_.dims) {
      const auto begin = dim.list->begin();
      coordinates.emplace_back(begin + static_cast<std::ptrdiff_t>(axes_[0].at),
                               begin + static_cast<std::ptrdiff_t>(axes_[0].to));
    }
    return points(std::move(coordinates));
  }
  Selection out;
  std::size_t next = 0;
  for (const ResolvedSelection::Dim& dim : resolved_.dims) {
    SelectionItem item;
    if (dim.dropped) {
      item.kind = SelectionItem::Kind::kIndex;
      item.start = static_cast<std::int64_t>(dim.start);
    } else {
      const Axis& axis = axes_[next++];
      if (dim.list != nullptr) {
        item = index_list({dim.list->begin() + static_cast<std::ptrdiff_t>(axis.at),
                           dim.list->begin() + static_cast<std::ptrdiff_t>(axis.to)});
      } else {
        item.start = static_cast<std::int64_t>(dim.start + axis.at * dim.step);
        item.stop = static_cast<std::int64_t>(dim.start + (axis.to - 1) * dim.step + 1);
        item.step = static_cast<std::int64_t>(dim.step);
      }
    }
    out.push_back(std::move(item));
  }
  return out;
}

bool ReadSlabs::next(ReadSlab& slab) {
  if (one_) {
    if (std::exchange(begun_, true)) return false;
    slab = {selection_, std::vector<std::uint64_t>(resolved_.shape.size(), 0), resolved_.shape, max_bytes_};
    return true;
  }
  std::size_t first = 0;  // first of the axes that start over
  if (std::exchange(begun_, true)) {
    std::size_t moved = axes_.size();
    while (moved > 0 && axes_[moved - 1].to == axes_[moved - 1].count) --moved;
    if (moved == 0) return false;
    axes_[moved - 1].at = axes_[moved - 1].to;
    begin_part(moved - 1);
    first = moved;
  }
  for (std::size_t a = first; a < axes_.size(); ++a) {
    axes_[a].at = 0;
    begin_part(a);
  }
  describe(slab);
  return true;
}

void ReadSlabs::describe(ReadSlab& slab) const {
  slab.selection = part();
  slab.start.clear();
  slab.shape.clear();
  slab.bytes = item_bytes_;
  for (const Axis& axis : axes_) {
    slab.start.push_back(axis.at);
    slab.shape.push_back(axis.to - axis.at);
    slab.bytes = product(slab.bytes, axis.to - axis.at);
  }
}

void ReadSlabs::set_item_bytes(std::uint64_t item_bytes) {
  item_bytes_ = std::max<std::uint64_t>(1, item_bytes);
  if (!one_) choose_parts();
}

bool ReadSlabs::shrink(ReadSlab& slab) {
  if (one_) return false;
  const auto elements = [this] {
    std::uint64_t count = 1;
    for (const Axis& axis : axes_) count = product(count, axis.to - axis.at);
    return count;
  };
  const std::uint64_t before = elements();
  for (;;) {
    const bool least = chunk_bytes() >= budget_bytes_;  // larger elements would not make the parts smaller
    if (!least) item_bytes_ = product(item_bytes_, 2);
    choose_parts();
    for (std::size_t a = 0; a < axes_.size(); ++a) begin_part(a);
    const bool smaller = elements() < before;
    if (!smaller && !least) continue;
    describe(slab);
    return smaller;
  }
}

}  // namespace headrace::cli
