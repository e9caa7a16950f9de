// GrowingBuffer: memory for decoded data of unknown length, charged to a budget.
//
// Only streams of variable-length elements have a decoded size that metadata does not determine. All their buffers come
// from here, so stored bytes cannot make them exceed a limit.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace headrace::codec {

// Threads: every call from any thread.
class GrowthBudget {
 public:
  explicit GrowthBudget(std::uint64_t limit_bytes) noexcept : limit_(limit_bytes) {}
  GrowthBudget(const GrowthBudget&) = delete;
  GrowthBudget& operator=(const GrowthBudget&) = delete;

  std::uint64_t limit() const noexcept { return limit_; }
  bool take(std::uint64_t bytes) noexcept {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};  // never above limit_
};

// Threads: one at a time.
class GrowingBuffer {
 public:
  GrowingBuffer() noexcept = default;
  explicit GrowingBuffer(GrowthBudget* budget) noexcept : budget_(budget) {}
  GrowingBuffer(GrowingBuffer&& other) noexcept
      : budget_(other.budget_), bytes_(std::move(other.bytes_)), capacity_(std::exchange(other.capacity_, 0)) {}
  GrowingBuffer& operator=(GrowingBuffer&& other) noexcept {
    release();
    budget_ = other.budget_;
    bytes_ = std::move(other.bytes_);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  ~GrowingBuffer() { release(); }

  // Null: no limit. Releases the memory it holds.
  void set_budget(GrowthBudget* budget) noexcept {
    release();
    budget_ = budget;
  }
  void release() noexcept {
    bytes_.reset();
    if (budget_ != nullptr) budget_->give(capacity_);
    capacity_ = 0;
  }

  // Ensures that capacity, with new's alignment; the content is lost when the buffer grows. kResourceExhausted beyond
  // the budget or the machine's memory.
  Status at_least(std::uint64_t bytes) noexcept {
    if (bytes <= capacity_) return {};
    release();
    if (budget_ != nullptr && !budget_->take(bytes)) return over_budget(bytes);
    bytes_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
    if (bytes_ == nullptr) {
      if (budget_ != nullptr) budget_->give(bytes);
      return Status::out_of_memory();
    }
    capacity_ = static_cast<std::size_t>(bytes);
    return {};
  }
  std::byte* data() const noexcept { return bytes_.get(); }
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  Status over_budget(std::uint64_t bytes) const noexcept {
    try {
      return Status(Code::kResourceExhausted, Layer::kCodec,
                    "decoding a chunk of variable-length elements needs a buffer of " + std::to_string(bytes) +
                        " bytes, more than is left of the " + std::to_string(budget_->limit()) +
                        " bytes that one chunk may use (half of ContextOptions::host_budget_bytes)");
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }

  GrowthBudget* budget_ = nullptr;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
};

}  // namespace headrace::codec
