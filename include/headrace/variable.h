// VariableResult: strings or byte strings of varying length, read to the host in Arrow's layout.
//
// `offsets` and `data` are the buffers of an Arrow LargeString (is_utf8) or LargeBinary array without nulls: element i,
// in C order of `shape`, is data[offsets[i], offsets[i + 1]).
//
// Threads: a plain value.
// Owns:    its buffers; views into them live as long as it does.
#pragma once

#include <headrace/cancel.h>
#include <headrace/export.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

// Why one chunk could not be read intact.
struct ChunkError {
  std::string key;
  std::uint64_t offset = 0;  // of the chunk's bytes in the object
  std::uint64_t length = 0;  // 0: the whole object
  Status status;
};

struct VariableReadOptions {
  // Maximum size of the result: 24 bytes per element (8 for its offset, 16 of working memory) plus the bytes of the
  // elements. kResourceExhausted if exceeded. While elements are put in order, their bytes exist twice.
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  // Continue past chunks that cannot be read. They are listed in `errors`, and their elements are empty.
  bool collect_errors = false;
  // Read, decode and check everything but keep nothing: the result has no elements, and max_bytes does not apply.
  bool check_only = false;
  std::optional<Cancel> cancel;  // once asked, the read ends with kCancelled
  // Called about every 100 ms with progress, from a worker thread or the calling thread; null: never. If it throws, the
  // read stops with kCancelled and the exception's text as the cause.
  std::function<void(std::uint64_t chunks_done, std::uint64_t chunks_total)> progress;
};

class HEADRACE_API VariableResult {
 public:
  VariableResult() = default;
  VariableResult(std::vector<std::uint64_t> shape, std::vector<std::int64_t> offsets, std::unique_ptr<std::byte[]> data,
                 bool is_utf8)
      : shape_(std::move(shape)), offsets_(std::move(offsets)), data_(std::move(data)), is_utf8_(is_utf8) {}

  const std::vector<std::uint64_t>& shape() const noexcept { return shape_; }  // of the selection
  std::uint64_t size() const noexcept { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  // size() + 1 ascending positions in data(), starting at 0; empty after check_only.
  std::span<const std::int64_t> offsets() const noexcept { return offsets_; }
  std::span<const std::byte> data() const noexcept {
    return {data_.get(), offsets_.empty() ? 0 : static_cast<std::size_t>(offsets_.back())};
  }
  bool is_utf8() const noexcept { return is_utf8_; }  // every element is valid UTF-8
  // REQUIRES: i < size().
  std::string_view operator[](std::uint64_t i) const noexcept {
    const auto at = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(i)]);
    const auto end = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(i) + 1]);
    return {reinterpret_cast<const char*>(data_.get()) + at, end - at};
  }

  std::vector<ChunkError> errors;  // with collect_errors only
  Stats stats;                     // decoded_bytes counts the bytes of the elements

 private:
  std::vector<std::uint64_t> shape_;
  std::vector<std::int64_t> offsets_;
  std::unique_ptr<std::byte[]> data_;
  bool is_utf8_ = false;
};

}  // namespace headrace
