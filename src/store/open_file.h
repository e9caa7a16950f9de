// What stores on files share: descriptors that close themselves, and errno as a Status.
#pragma once

#include <headrace/status.h>
#include <sys/stat.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/file_read.h"
#include "store/beneath.h"

namespace headrace::store {

// A descriptor, or -errno.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { base::close_descriptor(fd_); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int error() const { return -fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// What errno means for an object. kNotFound: the name is not there, or runs through a file.
Status system_failure(int error, std::string_view key, std::string_view what);

// "a directory", "a FIFO", ...: what a file that is not regular is.
const char* kind_of(mode_t mode);

// Opens the regular file at `path` beneath the root for reading. Nothing waits for a FIFO's writer. `name` is the
// object that messages are about.
Status open_regular(const Beneath& root, const char* path, std::string_view name, int& fd, std::uint64_t& size_bytes);

}  // namespace headrace::store
