// Calls into the user's code that catch its exceptions.
#pragma once

#include <headrace/status.h>

#include <exception>
#include <new>

namespace headrace::base {

// Returns the Status of `call`; an exception becomes kIo with its text.
template <class Call>
Status guarded(Call&& call) noexcept {
  try {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    } catch (const std::exception& error) {
      return Status(Code::kIo, Layer::kStore, "the store threw an exception").with_cause(error.what());
    } catch (...) {
      return Status(Code::kIo, Layer::kStore, "the store threw an exception");
    }
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::base
