// PageBuffer: page-aligned memory that keeps its pages between uses. It grows but never shrinks.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace headrace::os {

class PageBuffer {
 public:
  PageBuffer() noexcept = default;
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();
  // Returns `bytes` bytes with undefined content; data() is null if memory runs out.
  std::span<std::byte> reserve(std::size_t bytes) noexcept;
  std::byte* data() const noexcept { return data_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool contains(std::span<const std::byte> bytes) const noexcept {
    return data_ != nullptr && !std::less<>()(bytes.data(), data_) && std::less<>()(bytes.data(), data_ + capacity_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

// CPUs this process may run on, at least 1.
unsigned usable_cpus() noexcept;

}  // namespace headrace::os
