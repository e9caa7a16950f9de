// What stores on files share: descriptors that close themselves, and errno as a Status.
#pragma once

#include <headrace/status.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "os/file_read.h"
#include "store/beneath.h"

namespace headrace::store {

// A descriptor, or -errno.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { os::close_descriptor(fd_); }
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

// Whether a server, or a program behind FUSE, holds the file. Such files are not read past the page cache: what becomes
// of such reads is not the kernel's alone, and the next reader finds nothing cached.
bool held_elsewhere(int fd) noexcept;

// Opens the regular file at `path` beneath the root for reading. Nothing waits for a FIFO's writer. `name` is the
// object that messages are about.
Status open_regular(const Beneath& root, const char* path, std::string_view name, int& fd, std::uint64_t& size_bytes);

// Where a location runs through a file: the file, and the valid key of what is meant inside, "" for all of it. `what`
// the file should be is for messages. kNotFound, kInvalidArgument where the file is none or the rest no key. Throws
// std::bad_alloc.
Status split_at_file(std::string_view location, const std::string& what, std::string& path, std::string& inside);

}  // namespace headrace::store
