// PointerSet: whether a pointer is among given ones, however many these are.
//
// Threads: one at a time; const calls from any thread.
// Owns:    a sorted copy of the pointers. Without memory for it, the given ones are searched, which takes longer.
#pragma once

#include <algorithm>
#include <functional>
#include <new>
#include <span>
#include <vector>

namespace headrace::base {

template <class T>
class PointerSet {
 public:
  // The pointers stay in place as long as the set.
  explicit PointerSet(std::span<T* const> pointers) noexcept : given_(pointers) {
    try {
      sorted_.assign(pointers.begin(), pointers.end());
      std::sort(sorted_.begin(), sorted_.end(), std::less<>());
    } catch (const std::bad_alloc&) {
      sorted_.clear();
    }
  }
  bool contains(T* pointer) const noexcept {
    if (sorted_.empty()) return std::find(given_.begin(), given_.end(), pointer) != given_.end();
    return std::binary_search(sorted_.begin(), sorted_.end(), pointer, std::less<>());
  }

 private:
  const std::span<T* const> given_;
  std::vector<T*> sorted_;
};

}  // namespace headrace::base
