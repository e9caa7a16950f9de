// LibraryHandle: owns a library's context and frees it with the library's own function.
#pragma once

#include <memory>
#include <new>

namespace headrace::codec {

template <class T, auto kFree>
class LibraryHandle {
 public:
  // Throws std::bad_alloc if the library returned null.
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
