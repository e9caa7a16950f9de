// GuardBuffer: bytes with an unmapped page on either side, so that an access past the end always faults.
//
// The data touches a guard page on one side only. The slack on the other side, less than a page, is filled with
// canaries. Tests run with the data flush left and flush right.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#if defined(__SANITIZE_ADDRESS__)
#define HEADRACE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEADRACE_ASAN 1
#endif
#endif
#ifdef HEADRACE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace headrace::test {

enum class Flush { kLeft, kRight };

class GuardBuffer {
 public:
  GuardBuffer(std::size_t bytes, Flush flush) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    body_bytes_ = bytes == 0 ? page : (bytes + page - 1) / page * page;
    map_bytes_ = body_bytes_ + 2 * page;
    void* map = mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) std::abort();
    map_ = static_cast<std::byte*>(map);
    body_ = map_ + page;
    if (mprotect(body_, body_bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
    data_ = flush == Flush::kLeft ? body_ : body_ + body_bytes_ - bytes;
    std::memset(body_, kCanary, body_bytes_);
  }
  GuardBuffer(std::span<const std::byte> content, Flush flush) : GuardBuffer(content.size(), flush) {
    if (!content.empty()) std::memcpy(data_, content.data(), content.size());
  }
  ~GuardBuffer() { munmap(map_, map_bytes_); }
  GuardBuffer(const GuardBuffer&) = delete;
  GuardBuffer& operator=(const GuardBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Start of the mapping's readable part, right after the guard page.
  std::byte* body() const { return body_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

  // Whether nothing was written outside the data.
  bool intact() const {
    const auto untouched = [](const std::byte* from, const std::byte* to) {
      while (from != to && *from == std::byte{kCanary}) ++from;
      return from == to;
    };
    return untouched(body_, data_) && untouched(data_ + bytes_, body_ + body_bytes_);
  }

 private:
  static constexpr unsigned char kCanary = 0xA5;
  std::size_t bytes_;
  std::size_t body_bytes_ = 0;
  std::size_t map_bytes_ = 0;
  std::byte* map_ = nullptr;
  std::byte* body_ = nullptr;
  std::byte* data_ = nullptr;
};

// GuardArena: many buffers, one after the other, without a mapping for each. Canaries surround the data.
class GuardArena {
 public:
  explicit GuardArena(std::size_t max_bytes) : buffer_(max_bytes + 2 * kCanaryBytes, Flush::kRight) {}

  // Returns a buffer filled with `fill`; the previous buffer becomes invalid.
  std::byte* take(std::size_t bytes, Flush flush, unsigned char fill) {
    bytes_ = bytes;
    flush_ = flush;
    data_ = flush == Flush::kLeft ? buffer_.body() : buffer_.data() + buffer_.size() - bytes;
    std::memset(data_, fill, bytes);
    std::memset(canary(), kCanary, kCanaryBytes);
    return data_;
  }
  bool intact() const {
    for (std::size_t i = 0; i < kCanaryBytes; ++i) {
      if (canary()[i] != std::byte{kCanary}) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kCanary = 0xA5;
  static constexpr std::size_t kCanaryBytes = 256;
  std::byte* canary() const { return flush_ == Flush::kLeft ? data_ + bytes_ : data_ - kCanaryBytes; }

  GuardBuffer buffer_;
  std::size_t bytes_ = 0;
  Flush flush_ = Flush::kRight;
  std::byte* data_ = nullptr;
};

// GuardScratch: reusable memory of any size without a mapping for each use. An unmapped page follows it. The bytes
// before it are poisoned under AddressSanitizer, else filled with canaries.
class GuardScratch {
 public:
  GuardScratch() = default;
  ~GuardScratch() { unpoison(); }
  GuardScratch(const GuardScratch&) = delete;
  GuardScratch& operator=(const GuardScratch&) = delete;
  // Returns a buffer; the previous one becomes invalid. A short buffer is not zero; most of a long one is zero, so that
  // not all of it is touched.
  std::byte* take(std::size_t bytes) {
    unpoison();
    if (buffer_ == nullptr || buffer_->size() < bytes + kCanaryBytes) {
      const std::size_t twice = buffer_ == nullptr ? 0 : 2 * buffer_->size();
      const std::size_t room = std::max(bytes + kCanaryBytes, twice);
      buffer_ = std::make_unique<GuardBuffer>(room / kStep * kStep + kStep, Flush::kRight);
    }
    bytes_ = bytes;
    data_ = buffer_->data() + buffer_->size() - bytes;
    std::byte* const end = data_ + std::min(bytes, kFilled);
    std::memset(data_ - kCanaryBytes, kCanary, static_cast<std::size_t>(end - data_) + kCanaryBytes);
    if (bytes > kFilled) {
      const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
      const auto left = reinterpret_cast<std::uintptr_t>(end);
      std::byte* const whole = end + ((left + page - 1) / page * page - left);
      std::memset(end, kCanary, static_cast<std::size_t>(whole - end));
      if (madvise(whole, static_cast<std::size_t>(data_ + bytes - whole), MADV_DONTNEED) != 0) std::abort();
    }
    poison();
    return data_;
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  bool intact() {
    unpoison();
    bool all = true;
    for (const std::byte* at = data_ - kCanaryBytes; at != data_; ++at) all = all && *at == std::byte{kCanary};
    poison();
    return all;
  }

 private:
  static constexpr unsigned char kCanary = 0xA5;
  static constexpr std::size_t kCanaryBytes = 256, kStep = 256 << 10, kFilled = 128 << 10;
#ifdef HEADRACE_ASAN
  void poison() { __asan_poison_memory_region(buffer_->data(), before()); }
  void unpoison() {
    if (buffer_ != nullptr) __asan_unpoison_memory_region(buffer_->data(), before());
  }
  std::size_t before() const { return static_cast<std::size_t>(data_ - buffer_->data()); }
#else
  void poison() {}
  void unpoison() {}
#endif

  std::unique_ptr<GuardBuffer> buffer_;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace headrace::test
