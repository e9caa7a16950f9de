// Room in lists that grow one item at a time. vector::reserve gives exactly what is asked for, so that asking for one
// more each time copies the whole list each time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace headrace::base {

// Room for `needed` items in all, at least doubled when there is not enough. Throws std::bad_alloc.
template <class T>
void grow_to(std::vector<T>& list, std::size_t needed) {
  if (list.capacity() < needed) list.reserve(std::max({std::size_t{64}, 2 * list.capacity(), needed}));
}

// Room for `more` items behind those that are there.
template <class T>
void make_room(std::vector<T>& list, std::size_t more) {
  grow_to(list, list.size() + more);
}

}  // namespace headrace::base
