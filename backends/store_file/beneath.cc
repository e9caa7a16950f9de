#include "beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>
#include <vector>

#include "base/fault.h"

namespace headrace::store {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel
constexpr int kTries = 32;     // openat2 gives EAGAIN when a rename races with its check

// Descriptors from the root down to where the walk stands. The root's own is the caller's.
class Path {
 public:
  explicit Path(int root) : root_(root) {}
  ~Path() { reset(); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  int top() const { return fds_.empty() ? root_ : fds_.back(); }
  void push(int fd) { fds_.push_back(fd); }
  bool pop() {
    if (fds_.empty()) return false;
    ::close(fds_.back());
    fds_.pop_back();
    return true;
  }
  void reset() {
    while (pop()) {
    }
  }

 private:
  int root_;
  std::vector<int> fds_;
};

}  // namespace

Beneath::Beneath(int root_fd, bool kernel_resolves) : root_fd_(root_fd), kernel_resolves_(kernel_resolves) {
  if (!kernel_resolves) return;
  // Sandboxes answer ENOSYS or, for calls their authors had not heard of, EPERM.
  const int fd = open_by_kernel(".", O_PATH | O_DIRECTORY, Links::kFollow);
  if (fd >= 0) ::close(fd);
  kernel_resolves_ = fd != -ENOSYS && fd != -EPERM;
}

Beneath::~Beneath() { ::close(root_fd_); }

int Beneath::open(const char* path, int flags, Links links) const {
  return kernel_resolves_ ? open_by_kernel(path, flags, links) : open_by_walking(path, flags, links);
}

int Beneath::open_by_kernel(const char* path, int flags, Links links) const {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (links == Links::kRefuse) how.resolve |= RESOLVE_NO_SYMLINKS;
  std::int64_t fd = -EAGAIN;
  for (int i = 0; i < kTries && (fd == -EAGAIN || fd == -EINTR); ++i) {
    fd = HEADRACE_FAULT("store_file.openat2", 0);
    if (fd != 0) continue;
    fd = ::syscall(SYS_openat2, root_fd_, path, &how, sizeof how);
    if (fd < 0) fd = -errno;
  }
  return static_cast<int>(fd);
}

int Beneath::open_by_walking(const char* path, int flags, Links links) const {
  Path at(root_fd_);
  std::string rest = path;
  int followed = 0;
  int interrupted = 0;
  while (true) {
    const std::size_t start = rest.find_first_not_of('/');
    const std::size_t slash = start == std::string::npos ? std::string::npos : rest.find('/', start);
    const std::string name = start == std::string::npos ? "." : rest.substr(start, slash - start);
    const std::string after = slash == std::string::npos ? "" : rest.substr(slash);
    const bool last = after.find_first_not_of('/') == std::string::npos;
    if (name == "..") {
      if (!at.pop()) return -EXDEV;
      rest = last ? "." : after;
      continue;
    }
    const int want = last ? flags : O_PATH | O_DIRECTORY;
    std::int64_t fd = HEADRACE_FAULT("store_file.openat", 0);
    if (fd == 0) {
      fd = ::openat(at.top(), name.c_str(), want | O_NOFOLLOW | O_CLOEXEC);
      if (fd < 0) fd = -errno;
    }
    if (fd == -EINTR && ++interrupted < kTries) continue;
    if (fd >= 0 && last && ((flags & O_PATH) == 0 || (flags & O_NOFOLLOW) != 0)) return static_cast<int>(fd);
    // A link shows itself by ELOOP, by ENOTDIR where a directory was asked for, or as a link opened with O_PATH.
    if (fd >= 0 || fd == -ELOOP || fd == -ENOTDIR) {
      char target[PATH_MAX];
      const ssize_t n = ::readlinkat(at.top(), name.c_str(), target, sizeof target);
      if (n >= 0) {
        if (fd >= 0) ::close(static_cast<int>(fd));
        if (links == Links::kRefuse || ++followed > kMaxLinks) return -ELOOP;
        if (last && (flags & O_NOFOLLOW) != 0) return -ELOOP;
        if (n == 0) return -ENOENT;
        if (static_cast<std::size_t>(n) == sizeof target) return -ENAMETOOLONG;
        if (target[0] == '/') return -EXDEV;
        rest.assign(target, static_cast<std::size_t>(n));
        rest += after;
        continue;
      }
    }
    if (fd < 0) return static_cast<int>(fd);
    if (last) return static_cast<int>(fd);
    at.push(static_cast<int>(fd));
    rest = after;
  }
}

}  // namespace headrace::store
