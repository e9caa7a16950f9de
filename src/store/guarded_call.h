// Calls into code of the user's, whose exceptions end here.
#pragma once

#include <headrace/status.h>

#include <exception>
#include <new>

namespace headrace::store {

// What `call`, which gives a Status, gives; an exception is kIo with its text.
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

}  // namespace headrace::store
