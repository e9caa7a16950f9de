// OwnedDescriptor: a file descriptor that its destructor closes.
#pragma once

#include <utility>

#include "os/file_read.h"

namespace headrace::os {

// Threads: one at a time.
class OwnedDescriptor {
 public:
  // A descriptor, or -errno, or -1 for none.
  explicit OwnedDescriptor(int fd = -1) noexcept : fd_(fd) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedDescriptor() { close_descriptor(fd_); }

  explicit operator bool() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  int error() const noexcept { return -fd_; }  // errno, if constructed from -errno
  void close() noexcept { *this = OwnedDescriptor(); }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace headrace::os
