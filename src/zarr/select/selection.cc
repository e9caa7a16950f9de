#include <headrace/selection.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/checked.h"
#include "zarr/select/block_selection.h"

namespace headrace {
namespace {

using Kind = SelectionItem::Kind;

Status wrong(std::string message) { return Status(Code::kInvalidArgument, Layer::kZarr, std::move(message)); }

// NumPy's bound: a negative one counts from the end; the result is clamped to [0, extent].
std::uint64_t clamp_bound(std::int64_t bound, std::int64_t extent) {
  if (bound < 0) bound = bound < -extent ? 0 : bound + extent;
  return static_cast<std::uint64_t>(std::min(bound, extent));
}

std::string where(std::size_t dim) { return "selection of dimension " + std::to_string(dim); }

Status out_of_range(std::size_t dim, std::int64_t index, std::int64_t extent, std::string_view of = "index") {
  return wrong(where(dim) + ": " + std::string(of) + " " + std::to_string(index) + " is out of range for extent " +
               std::to_string(extent));
}

Status resolve_slice(const SelectionItem& item, std::int64_t extent, std::size_t dim, ResolvedSelection::Dim& out) {
  if (item.step < 1) return wrong(where(dim) + ": the step must be at least 1, not " + std::to_string(item.step));
  out.start = clamp_bound(item.start.value_or(0), extent);
  out.step = static_cast<std::uint64_t>(item.step);
  const std::uint64_t stop = clamp_bound(item.stop.value_or(extent), extent);
  if (stop > out.start) out.count = (stop - out.start - 1) / out.step + 1;
  return {};
}

Status resolve_list(const std::vector<std::int64_t>& indices, std::int64_t extent, std::size_t dim,
                    ResolvedSelection::Dim& out) {
  auto list = std::make_shared<std::vector<std::uint64_t>>(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::int64_t index = indices[i];
    if (index >= extent || index < -extent) {
      return out_of_range(dim, index, extent, "entry " + std::to_string(i) + " of the list, index");
    }
    (*list)[i] = static_cast<std::uint64_t>(index < 0 ? index + extent : index);
  }
  out.count = list->size();
  out.list = std::move(list);
  return {};
}

Status resolve_item(const SelectionItem& item, std::int64_t extent, std::size_t dim, ResolvedSelection& out) {
  ResolvedSelection::Dim resolved;
  switch (item.kind) {
    case Kind::kIndex: {
      if (!item.start) return wrong(where(dim) + ": an index needs a number");
      std::int64_t index = *item.start;
      if (index >= extent || index < -extent) return out_of_range(dim, index, extent);
      if (index < 0) index += extent;
      resolved = {static_cast<std::uint64_t>(index), 1, 1, true};
      break;
    }
    case Kind::kMask:
      if (item.mask_length != static_cast<std::uint64_t>(extent)) {
        return wrong(where(dim) + ": the mask has " + std::to_string(item.mask_length) + " entries, the extent is " +
                     std::to_string(extent));
      }
      HEADRACE_TRY(resolve_list(item.indices, extent, dim, resolved));
      break;
    case Kind::kList:
      HEADRACE_TRY(resolve_list(item.indices, extent, dim, resolved));
      break;
    case Kind::kBlocks:
      return wrong(where(dim) + ": blocks refer to an array's chunk grid, which is not available here");
    default:
      HEADRACE_TRY(resolve_slice(item, extent, dim, resolved));
  }
  if (!resolved.dropped) out.shape.push_back(resolved.count);
  out.dims.push_back(std::move(resolved));
  return {};
}

Status resolve_points(const Selection& selection, std::span<const std::uint64_t> shape, ResolvedSelection& resolved) {
  if (selection.size() != shape.size()) {
    return wrong("points have coordinates in " + std::to_string(selection.size()) + " dimensions, but the array has " +
                 std::to_string(shape.size()));
  }
  std::size_t count = 1;
  std::optional<std::size_t> decided_by;
  for (std::size_t dim = 0; dim < selection.size(); ++dim) {
    const SelectionItem& item = selection[dim];
    if (item.kind != Kind::kPoints) {
      return wrong(where(dim) + ": points are a selection of their own and cannot be mixed with other items");
    }
    if (item.indices.size() == 1) continue;
    if (decided_by && item.indices.size() != count) {
      return wrong(where(dim) + ": " + std::to_string(item.indices.size()) + " coordinates, but dimension " +
                   std::to_string(*decided_by) + " has " + std::to_string(count));
    }
    count = item.indices.size();
    decided_by = dim;
  }
  resolved.points = true;
  for (std::size_t dim = 0; dim < selection.size(); ++dim) {
    ResolvedSelection::Dim& out = resolved.dims.emplace_back();
    const std::vector<std::int64_t>& indices = selection[dim].indices;
    HEADRACE_TRY(resolve_list(indices, static_cast<std::int64_t>(shape[dim]), dim, out));
    out.dropped = true;
    if (indices.size() != count) {
      out.list = std::make_shared<std::vector<std::uint64_t>>(count, out.list->front());
      out.count = count;
    }
  }
  resolved.shape.assign(1, count);
  return {};
}

}  // namespace

SelectionItem index_list(std::vector<std::int64_t> indices) {
  SelectionItem item;
  item.kind = Kind::kList;
  item.indices = std::move(indices);
  return item;
}

SelectionItem mask(const std::vector<bool>& where_true) {
  SelectionItem item;
  item.kind = Kind::kMask;
  item.mask_length = where_true.size();
  for (std::size_t i = 0; i < where_true.size(); ++i) {
    if (where_true[i]) item.indices.push_back(static_cast<std::int64_t>(i));
  }
  return item;
}

SelectionItem block(std::int64_t number) {
  SelectionItem item;
  item.kind = Kind::kBlocks;
  item.indices.assign(1, number);
  return item;
}

SelectionItem block_range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop) {
  SelectionItem item;
  item.kind = Kind::kBlocks;
  item.start = start;
  item.stop = stop;
  return item;
}

Selection points(std::vector<std::vector<std::int64_t>> coordinates) {
  Selection selection(coordinates.size());
  for (std::size_t dim = 0; dim < coordinates.size(); ++dim) {
    selection[dim].kind = Kind::kPoints;
    selection[dim].indices = std::move(coordinates[dim]);
  }
  return selection;
}

Result<Selection> mask_points(std::span<const std::uint8_t> where_true, std::span<const std::uint64_t> shape) {
  std::optional<std::uint64_t> elements = 1;
  for (const std::uint64_t extent : shape) {
    if (elements) elements = base::checked_mul(*elements, extent);
  }
  if (shape.empty()) return wrong("a mask of points needs an array with at least one dimension");
  if (!elements || *elements != where_true.size()) {
    return wrong("the mask has " + std::to_string(where_true.size()) + " entries, the array has " +
                 (elements ? std::to_string(*elements) : std::string("more than 2^64")) + " elements");
  }
  std::vector<std::vector<std::int64_t>> coordinates(shape.size());
  std::vector<std::uint64_t> at(shape.size(), 0);
  for (const std::uint8_t is_true : where_true) {
    for (std::size_t dim = 0; is_true != 0 && dim < at.size(); ++dim) {
      coordinates[dim].push_back(static_cast<std::int64_t>(at[dim]));
    }
    for (std::size_t dim = at.size(); dim-- > 0;) {
      if (++at[dim] < shape[dim]) break;
      at[dim] = 0;
    }
  }
  return points(std::move(coordinates));
}

Result<ResolvedSelection> resolve_selection(const Selection& selection, std::span<const std::uint64_t> shape) {
  ResolvedSelection out;
  HEADRACE_TRY(zarr::resolve_selection_into(selection, shape, out));
  return out;
}

namespace zarr {

Status resolve_selection_into(const Selection& selection, std::span<const std::uint64_t> shape,
                              ResolvedSelection& resolved) {
  resolved.dims.clear();
  resolved.shape.clear();
  resolved.points = false;
  constexpr std::uint64_t kMaxExtent = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t extent : shape) {
    if (extent > kMaxExtent) return wrong("shape has an extent above 2^63 - 1");
  }
  const auto is_points = [](const SelectionItem& item) { return item.kind == Kind::kPoints; };
  if (std::any_of(selection.begin(), selection.end(), is_points)) return resolve_points(selection, shape, resolved);
  const auto is_ellipsis = [](const SelectionItem& item) { return item.kind == Kind::kEllipsis; };
  const auto ellipses = static_cast<std::size_t>(std::count_if(selection.begin(), selection.end(), is_ellipsis));
  if (ellipses > 1) return wrong("selection has more than one ellipsis");
  const std::size_t given = selection.size() - ellipses;
  if (given > shape.size()) {
    return wrong("selection has " + std::to_string(given) + " items, but the array has " +
                 std::to_string(shape.size()) + " dimensions");
  }
  const auto take_all = [&](std::size_t count) {
    for (; count > 0; --count) {
      const std::uint64_t extent = shape[resolved.dims.size()];
      resolved.dims.push_back({0, extent, 1, false});
      resolved.shape.push_back(extent);
    }
  };
  for (const SelectionItem& item : selection) {
    if (is_ellipsis(item)) {
      take_all(shape.size() - given);
      continue;
    }
    const std::size_t dim = resolved.dims.size();
    HEADRACE_TRY(resolve_item(item, static_cast<std::int64_t>(shape[dim]), dim, resolved));
  }
  take_all(shape.size() - resolved.dims.size());
  return {};
}

bool has_blocks(const Selection& selection) noexcept {
  return std::any_of(selection.begin(), selection.end(),
                     [](const SelectionItem& item) { return item.kind == Kind::kBlocks; });
}

Result<Selection> blocks_to_slices(const Selection& selection, std::span<const std::uint64_t> shape,
                                   const BlockBegin& begin_of) {
  const auto is_ellipsis = [](const SelectionItem& item) { return item.kind == Kind::kEllipsis; };
  const auto ellipses = static_cast<std::size_t>(std::count_if(selection.begin(), selection.end(), is_ellipsis));
  Selection out = selection;
  std::size_t dim = 0;
  for (SelectionItem& item : out) {
    if (is_ellipsis(item)) {
      dim += shape.size() - std::min(shape.size(), selection.size() - ellipses);
      continue;
    }
    if (dim >= shape.size()) break;  // too many items; resolve_selection() reports that
    const std::size_t axis = dim++;
    if (item.kind != Kind::kBlocks) continue;
    const std::uint64_t blocks = begin_of.count(axis);
    if (blocks > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return wrong(where(axis) + ": more than 2^63 - 1 blocks");
    }
    const auto count = static_cast<std::int64_t>(blocks);
    ResolvedSelection::Dim range;
    if (!item.indices.empty()) {
      std::int64_t number = item.indices.front();
      if (number >= count || number < -count) return out_of_range(axis, number, count, "block");
      if (number < 0) number += count;
      range.start = static_cast<std::uint64_t>(number);
      range.count = 1;
    } else {
      if (item.step != 1) return wrong(where(axis) + ": a range of blocks has no step");
      HEADRACE_TRY(resolve_slice(item, count, axis, range));
    }
    const auto element = [&](std::uint64_t number) {
      return static_cast<std::int64_t>(number >= blocks ? shape[axis]
                                                        : std::min(begin_of.begin(axis, number), shape[axis]));
    };
    item = SelectionItem();
    item.start = element(range.start);
    item.stop = element(range.start + range.count);
  }
  return out;
}

}  // namespace zarr
}  // namespace headrace
