// Access: what lies behind the handles of the public headers, for code of this tree. It is not installed.
#pragma once

#include <utility>

namespace headrace {

struct Access {
  // The shared object that a Context, Store, Device, File or Array stands for. Valid as long as the handle.
  template <class Handle>
  static const auto& impl(const Handle& handle) noexcept {
    return handle.impl_;
  }

  // A handle to such an object: a Store over a store::Store of one's own, a Completion.
  template <class Handle, class... Arguments>
  static Handle make(Arguments&&... arguments) {
    return Handle(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace headrace
