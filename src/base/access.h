// Access: the implementation objects behind public handles, for code of this tree. Not installed.
#pragma once

#include <utility>

namespace headrace {

struct Access {
  // The shared object behind a Context, Store, Device, File or Array. Valid as long as the handle.
  template <class Handle>
  static const auto& impl(const Handle& handle) noexcept {
    return handle.impl_;
  }

  // A handle to such an object, for example a Store over another store::Store, or a Completion.
  template <class Handle, class... Arguments>
  static Handle make(Arguments&&... arguments) {
    return Handle(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace headrace
