#include "picks.h"

#include <algorithm>

namespace headrace::stress {
namespace {

std::int64_t maybe_negative(Dice& dice, std::uint64_t index, std::uint64_t extent) {
  const auto plain = static_cast<std::int64_t>(index);
  return dice.one_in(4) ? plain - static_cast<std::int64_t>(extent) : plain;
}

// Takes at most `most` indices, with a step if there are more.
SelectionItem pick_item(Dice& dice, std::uint64_t extent, std::uint64_t most, Shape& list, bool& dropped) {
  SelectionItem item;
  if (extent > 0 && dice.one_in(5)) {
    const std::uint64_t index = dice.below(extent);
    item.kind = SelectionItem::Kind::kIndex;
    item.start = maybe_negative(dice, index, extent);
    list = {index};
    dropped = true;
    return item;
  }
  if (extent > 0 && dice.one_in(6)) {
    std::vector<std::int64_t> indices;
    for (std::uint64_t i = 0, n = dice.between(0, 9); i < n; ++i) {
      list.push_back(dice.below(extent));
      indices.push_back(maybe_negative(dice, list.back(), extent));
    }
    return index_list(std::move(indices));
  }
  if (extent > 0 && extent <= most && dice.one_in(10)) {
    std::vector<bool> where(static_cast<std::size_t>(extent));
    for (std::uint64_t i = 0; i < extent; ++i) {
      where[static_cast<std::size_t>(i)] = dice.one_in(3);
      if (where[static_cast<std::size_t>(i)]) list.push_back(i);
    }
    return mask(where);
  }
  std::uint64_t start = 0, stop = extent;
  if (dice.one_in(2)) {
    start = dice.below(extent + 1);
    item.start = static_cast<std::int64_t>(start);
  }
  if (extent > most || dice.one_in(2)) {
    const std::uint64_t wanted = start + dice.below(std::min(extent + 2, most) + 1);
    item.stop = static_cast<std::int64_t>(wanted);
    stop = std::min(wanted, extent);
  }
  if (dice.one_in(3)) item.step = static_cast<std::int64_t>(dice.between(1, 5));
  for (std::uint64_t i = start; i < stop; i += static_cast<std::uint64_t>(item.step)) list.push_back(i);
  return item;
}

Picked whole(const Shape& shape) {
  Picked out;
  out.dropped.assign(shape.size(), false);
  for (const std::uint64_t extent : shape) {
    Shape& list = out.lists.emplace_back();
    for (std::uint64_t i = 0; i < extent; ++i) list.push_back(i);
  }
  return out;
}

Picked pick_points(Dice& dice, const Shape& shape) {
  Picked out;
  std::vector<std::vector<std::int64_t>> coordinates(shape.size());
  out.points = true;
  out.lists.resize(shape.size());
  for (std::uint64_t i = 0, n = dice.between(0, 20); i < n; ++i) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      out.lists[d].push_back(dice.below(shape[d]));
      coordinates[d].push_back(maybe_negative(dice, out.lists[d].back(), shape[d]));
    }
  }
  out.selection = points(std::move(coordinates));
  return out;
}

}  // namespace

Shape Picked::result_shape() const {
  if (points) return {lists[0].size()};
  Shape out;
  for (std::size_t d = 0; d < lists.size(); ++d) {
    if (!dropped[d]) out.push_back(lists[d].size());
  }
  return out;
}

Picked pick(Dice& dice, const Shape& shape, std::uint64_t max_elements) {
  std::uint64_t elements = 1;
  bool fits = true;
  for (const std::uint64_t extent : shape) {
    fits = fits && extent <= max_elements && (elements *= extent) <= max_elements;
  }
  if (fits && dice.one_in(3)) return whole(shape);
  const bool some = std::count(shape.begin(), shape.end(), 0u) == 0;
  if (!shape.empty() && some && dice.one_in(8)) return pick_points(dice, shape);
  for (int attempt = 0; attempt < 3; ++attempt) {
    Picked out;
    std::uint64_t room = max_elements;
    for (const std::uint64_t extent : shape) {
      Shape list;
      bool dropped = false;
      out.selection.push_back(pick_item(dice, extent, room, list, dropped));
      if (!list.empty()) room = std::max<std::uint64_t>(1, room / list.size());
      out.lists.push_back(std::move(list));
      out.dropped.push_back(dropped);
    }
    std::uint64_t count = 1;
    for (const Shape& list : out.lists) count *= list.size();
    if (count <= max_elements) return out;
  }
  return fits ? whole(shape) : pick_points(dice, shape);
}

}  // namespace headrace::stress
