// Common parts of the C API's calls: handles that several files use, and error reporting.
#pragma once

#include <headrace/array.h>
#include <headrace/context.h>
#include <headrace/device.h>
#include <headrace/headrace.h>
#include <headrace/status.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

struct hr_error {
  hr_code code = HR_INTERNAL;
  std::string message;
};
struct hr_context {
  headrace::Context value;
};
struct hr_store {
  headrace::Store value;
};
struct hr_array {
  headrace::Array value;
};
struct hr_device {
  headrace::Device value;
};

namespace headrace::capi {

// Returned if there is no memory for an error object; hr_error_free recognises it.
inline hr_error* out_of_memory_error() noexcept {
  static hr_error error{HR_RESOURCE_EXHAUSTED, "out of memory"};  // fits the string's inline buffer
  return &error;
}

inline hr_code report(const Status& status, hr_error** error) noexcept {
  if (status.ok()) return HR_OK;
  const hr_code code = static_cast<hr_code>(status.code());
  if (error != nullptr) {
    try {
      *error = new hr_error{code, status.to_string()};
    } catch (...) {
      *error = out_of_memory_error();
    }
  }
  return code;
}

// Runs `body` (which returns a Status) and turns any failure or exception into a code and a message.
template <class Body>
hr_code guarded(hr_error** error, Body&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    return report(body(), error);
  } catch (const std::bad_alloc&) {
    return report(Status::out_of_memory(), error);
  } catch (...) {
    // Nothing below throws intentionally. A length_error from an absurd size is the likely cause.
    try {
      return report(Status(Code::kInternal, Layer::kApi, "an exception reached the C API"), error);
    } catch (...) {
      return report(Status::out_of_memory(), error);
    }
  }
}

inline Status invalid(std::string message) { return Status(Code::kInvalidArgument, Layer::kApi, std::move(message)); }

inline Status require(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return invalid(std::string("the argument '") + name + "' is null");
}

inline hr_code out_is_null(hr_error** error) {
  return guarded(error, [] { return require(nullptr, "out"); });
}

// Whether a struct's size field belongs to a version of the struct. `ends` lists the sizes that callers may have been
// compiled with. Each is the end of a field, so no field is read in part. A larger struct comes from a later header.
inline Status check_size(std::size_t size, std::span<const std::size_t> ends) {
  constexpr std::size_t kMaxBytes = 4096;  // a larger size is an uninitialised struct, not a later version
  if (size < ends.front() || size > kMaxBytes) {
    return invalid("the struct's size field is " + std::to_string(size) + "; initialise it with its *_INIT macro");
  }
  if (size < ends.back() && std::find(ends.begin(), ends.end(), size) == ends.end()) {
    return invalid("the struct's size field is " + std::to_string(size) +
                   ", which matches no version of it: initialise it with its *_INIT macro");
  }
  return {};
}

// Copies an option struct of any known version into the newest one. For a later version, unknown fields must be zero,
// that is, at their defaults.
template <class Options>
Status take_options(const Options* given, std::span<const std::size_t> ends, Options& out) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  HEADRACE_TRY(check_size(size, ends));
  if (size > sizeof(Options)) {
    const char* bytes = reinterpret_cast<const char*>(given);
    if (std::any_of(bytes + sizeof(Options), bytes + size, [](char c) { return c != 0; })) {
      return invalid("the options set a field that this version of headrace does not know");
    }
  }
  std::memcpy(&out, given, std::min(size, sizeof(Options)));
  out.size = sizeof(Options);
  return {};
}

// The reverse, for structs that the library fills: copies as much of `made` as the caller's version has. Fields of a
// later header are set to zero.
template <class Filled>
Status give_struct(const Filled& made, std::span<const std::size_t> ends, Filled* out) {
  std::size_t size = 0;
  std::memcpy(&size, out, sizeof(size));
  HEADRACE_TRY(check_size(size, ends));
  auto* const bytes = reinterpret_cast<char*>(out);
  constexpr std::size_t kBegin = sizeof(size);  // the size field stays unchanged
  std::memcpy(bytes + kBegin, reinterpret_cast<const char*>(&made) + kBegin, std::min(size, sizeof(Filled)) - kBegin);
  if (size > sizeof(Filled)) std::memset(bytes + sizeof(Filled), 0, size - sizeof(Filled));
  return {};
}

template <class T>
constexpr std::size_t field_end(std::size_t offset) {
  return offset + sizeof(T);  // NOLINT(bugprone-sizeof-expression): T may be a pointer type
}

}  // namespace headrace::capi
