// Picked: a random selection and the elements it takes.
#pragma once

#include <headrace/selection.h>

#include "dice.h"

namespace headrace::stress {

struct Picked {
  Selection selection;
  std::vector<Shape> lists;  // by axis: the selected indices
  std::vector<bool> dropped;
  bool points = false;

  Shape result_shape() const;
  // Calls visit(position in the result in C order, element of the array).
  template <class Visit>
  void each(const Shape& shape, Visit visit) const {
    std::uint64_t place = 0;
    Shape at(lists.size()), element(lists.size()), counts;
    if (points) {
      for (std::size_t i = 0; i < lists[0].size(); ++i) {
        for (std::size_t d = 0; d < lists.size(); ++d) element[d] = lists[d][i];
        visit(place++, linear(element, shape));
      }
      return;
    }
    for (const Shape& list : lists) counts.push_back(list.size());
    if (product(counts) == 0) return;
    do {
      for (std::size_t d = 0; d < lists.size(); ++d) element[d] = lists[d][at[d]];
      visit(place++, linear(element, shape));
    } while (advance(at, counts));
  }
};

// Everything or a part; the result has at most `max_elements`.
Picked pick(Dice& dice, const Shape& shape, std::uint64_t max_elements);

}  // namespace headrace::stress
