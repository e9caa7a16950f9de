// Beneath: opens paths that cannot escape a root directory, whatever symbolic links they contain.
//
// The kernel does this in one call (openat2, RESOLVE_BENEATH). If that is missing or forbidden, the path is walked
// component by component; links are read and their text walked, never followed. Same results, more system calls.
//
// Threads: any.
// Owns:    the root's descriptor.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>

namespace headrace::store {

class Beneath {
 public:
  // Takes ownership of `root_fd` (O_PATH | O_DIRECTORY). `kernel_resolves` false skips the attempt to use openat2.
  explicit Beneath(int root_fd, bool kernel_resolves = true);
  ~Beneath();
  Beneath(const Beneath&) = delete;
  Beneath& operator=(const Beneath&) = delete;

  enum class Links { kFollow, kRefuse };  // kRefuse: ELOOP if any component is a symbolic link

  // Returns a descriptor or -errno. EXDEV: the path leads outside the root. `path` is relative; "." is the root.
  // `flags` as for open(2), without O_CREAT; O_CLOEXEC is implied.
  int open(const char* path, int flags, Links links = Links::kFollow) const;
  // The same without waiting for a disk or network: EAGAIN if a name on the way is not in memory, ENOSYS if the kernel
  // cannot do this (before Linux 5.12).
  int open_cached_path(const char* path, int flags) const;

  int root() const noexcept { return root_fd_; }
  bool kernel_resolves() const noexcept { return kernel_resolves_; }

 private:
  int open_by_kernel(const char* path, int flags, Links links) const;
  int open_once(const char* path, int flags, std::uint64_t resolve) const;
  int open_by_walking(const char* path, int flags, Links links) const;

  int root_fd_;
  bool kernel_resolves_;
};

}  // namespace headrace::store
