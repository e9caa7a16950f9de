// LibraryHandle: a library's context, freed by the library's own function.
#pragma once

#include <memory>
#include <new>

namespace headrace::codec {

template <class T, auto kFree>
class LibraryHandle {
 public:
  // Throws std::bad_alloc where the library made none.
  explicit LibraryHandle(T* made) : handle_(made) {
    if (made == nullptr) throw std::bad_alloc();
  }
  T* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(T* handle) const noexcept { kFree(handle); }
  };
  std::unique_ptr<T, Free> handle_;
};

}  // namespace headrace::codec
