// run_callback(): calls a function supplied by the user and turns exceptions into a Status, since no exception may
// propagate through the library while its threads work.
#pragma once

#include <headrace/status.h>

#include <exception>
#include <new>
#include <utility>

namespace headrace::base {

// kCancelled with the exception's text as the cause: a callback that throws ends the operation it was called for.
template <class Function, class... Args>
Status run_callback(const char* threw, const Function& function, Args&&... args) noexcept {
  const auto failure = [threw](const char* what) noexcept {
    try {
      return Status(Code::kCancelled, Layer::kApi, threw).with_cause(what);
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  };
  try {
    function(std::forward<Args>(args)...);
    return {};
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  } catch (const std::exception& error) {
    return failure(error.what());
  } catch (...) {
    return failure("not a std::exception");
  }
}

inline constexpr const char* kProgressThrew = "the progress function threw an exception, which stops the operation";

}  // namespace headrace::base
