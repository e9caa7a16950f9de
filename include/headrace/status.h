// Status and Result: how headrace calls report failure.
//
// A Status is one pointer, null when OK. A failure carries what went wrong (code, message), where (layer, key, offset,
// length) and the cause reported by the system or a library. No exception crosses the library's boundary.
//
// Threads: a Status may be copied and read from several threads at once.
#pragma once

#include <headrace/export.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace headrace {

enum class Code : std::uint8_t {
  kOk,
  kInvalidArgument,  // the request cannot be met: selection out of range, wrong buffer size
  kNotFound,         // no such object; for a chunk this means "fill value" and is not an error
  kCorrupt,          // stored bytes break their format: metadata, shard index, checksum, compressed stream
  kShort,            // fewer bytes exist than the format promises
  kIo,               // the system refused to read or write
  kAgainExhausted,   // a transient failure persisted beyond the retry limit
  kTimeout,
  kCancelled,
  kResourceExhausted,  // host, pinned or device memory, or a configured budget
  kUnsupported,        // well formed, but not implemented here; the message names the feature
  kPermission,
  kDeviceLost,  // the device's context is unusable
  kForked,      // use of a handle inherited across fork()
  kInternal,    // a bug in headrace
};

// The part of the library that detected the failure.
enum class Layer : std::uint8_t { kBase, kIo, kDevice, kStore, kCodec, kTransfer, kZarr, kApi };

HEADRACE_API std::string_view code_name(Code code);
HEADRACE_API std::string_view layer_name(Layer layer);

class [[nodiscard]] HEADRACE_API Status {
 public:
  Status() noexcept = default;
  Status(Code code, Layer layer, std::string message) noexcept;
  Status(const Status& other) noexcept;
  Status(Status&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  Status& operator=(const Status& other) noexcept;
  Status& operator=(Status&& other) noexcept;
  ~Status();

  // Needs no memory: for use when an allocation has just failed.
  static Status out_of_memory() noexcept;

  bool ok() const noexcept { return rep_ == nullptr; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept;
  Layer layer() const noexcept;
  const std::string& message() const noexcept;           // empty when OK
  const std::string& key() const noexcept;               // object or path concerned; empty if none
  std::optional<std::uint64_t> offset() const noexcept;  // byte offset in the object
  std::optional<std::uint64_t> length() const noexcept;  // bytes
  const std::string& cause() const noexcept;             // text from the system or a library; empty if none
  int system_error() const noexcept;                     // errno, 0 if none

  // Each adds context as the Status is passed up. Fields that are already set stay, as the first finder knows best.
  Status with_key(std::string_view key) &&;
  Status with_range(std::uint64_t offset, std::uint64_t length) &&;
  Status with_cause(std::string_view cause) &&;
  Status with_errno(int error) &&;

  // One line: code, layer, message, key, offset, length, cause. "ok" if OK.
  std::string to_string() const;

 private:
  struct Rep;
  Rep* writable() noexcept;
  Rep* rep_ = nullptr;
};

// Thrown by Result::value(), in the caller's code: the library itself throws nothing.
class HEADRACE_API BadResultAccess : public std::exception {
 public:
  explicit BadResultAccess(Status status)
      : status_(std::move(status)), what_("headrace: a failed call has no value: " + status_.to_string()) {}
  const char* what() const noexcept override { return what_.c_str(); }
  const Status& status() const noexcept { return status_; }

 private:
  Status status_;
  std::string what_;
};

// A value, or the Status that explains its absence.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                  // NOLINT(google-explicit-constructor)
  Result(Status status) noexcept : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Status(Code::kInternal, Layer::kBase, "a Result was made from an OK status");
  }
  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const& noexcept { return status_; }
  Status status() && noexcept { return std::move(status_); }
  // Throws BadResultAccess unless ok().
  T& value() & {
    require_ok();
    return *value_;
  }
  const T& value() const& {
    require_ok();
    return *value_;
  }
  T value() && {
    require_ok();
    return std::move(*value_);
  }
  // REQUIRES: ok().
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  void require_ok() const {
    if (!ok()) throw BadResultAccess(status_);
  }
  std::optional<T> value_;
  Status status_;
};

}  // namespace headrace

#define HEADRACE_CONCAT_(a, b) a##b
#define HEADRACE_CONCAT(a, b) HEADRACE_CONCAT_(a, b)
// Returns from the enclosing function if `expr` (a Status) is a failure.
#define HEADRACE_TRY(expr)                                                           \
  do {                                                                               \
    if (::headrace::Status hr_status_ = (expr); !hr_status_.ok()) return hr_status_; \
  } while (0)
// Declares or assigns `var` from a Result, or returns its failure.
#define HEADRACE_TRY_ASSIGN(var, expr) HEADRACE_TRY_ASSIGN_(HEADRACE_CONCAT(hr_result_, __LINE__), var, expr)
#define HEADRACE_TRY_ASSIGN_(tmp, var, expr)     \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  var = std::move(tmp).value()
