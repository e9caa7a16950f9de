// Amortised growth for lists that grow one item at a time. vector::reserve allocates exactly what is asked for, so
// reserving one more item each time would copy the whole list each time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace headrace::base {

// Reserves room for `needed` items in all, at least doubling the capacity when it grows. Throws std::bad_alloc.
template <class T>
void grow_to(std::vector<T>& list, std::size_t needed) {
  if (list.capacity() < needed) list.reserve(std::max({std::size_t{64}, 2 * list.capacity(), needed}));
}

// Reserves room for `more` additional items.
template <class T>
void make_room(std::vector<T>& list, std::size_t more) {
  grow_to(list, list.size() + more);
}

}  // namespace headrace::base
