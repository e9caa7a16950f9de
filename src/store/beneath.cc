#include "store/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "os/descriptors.h"

namespace headrace::store {
namespace {

constexpr int kMaxLinks = 40;                   // the kernel's limit
constexpr std::uint64_t kResolveCached = 0x20;  // RESOLVE_CACHED, which older headers lack
constexpr int kTries = 32;                      // openat2 gives EAGAIN if a rename races with its check

// Descriptors from the root down to the current position of the walk. The root's own belongs to the caller.
class DescriptorPath {
 public:
  explicit DescriptorPath(int root) : root_(root) {}
  ~DescriptorPath() { reset(); }
  DescriptorPath(const DescriptorPath&) = delete;
  DescriptorPath& operator=(const DescriptorPath&) = delete;
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

int open_entry(int directory, const char* name, int flags) {
  const std::int64_t fault = HEADRACE_FAULT("store.openat", 0);
  if (fault != 0) return static_cast<int>(fault);
  const int fd = ::openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

}  // namespace

Beneath::Beneath(int root_fd, bool kernel_resolves) : root_fd_(root_fd), kernel_resolves_(kernel_resolves) {
  if (!kernel_resolves) return;
  // Sandboxes answer ENOSYS or, for calls unknown to their authors, EPERM.
  const int fd = open_by_kernel(".", O_PATH | O_DIRECTORY, Links::kFollow);
  if (fd >= 0) ::close(fd);
  kernel_resolves_ = fd != -ENOSYS && fd != -EPERM;
}

Beneath::~Beneath() { ::close(root_fd_); }

int Beneath::open(const char* path, int flags, Links links) const {
  return os::open_patiently(
      [&] { return kernel_resolves_ ? open_by_kernel(path, flags, links) : open_by_walking(path, flags, links); });
}

int Beneath::open_by_kernel(const char* path, int flags, Links links) const {
  int fd = -EAGAIN;
  for (int i = 0; i < kTries && (fd == -EAGAIN || fd == -EINTR); ++i) {
    fd = open_once(path, flags, links == Links::kRefuse ? RESOLVE_NO_SYMLINKS : 0);
  }
  return fd;
}

int Beneath::open_cached_path(const char* path, int flags) const {
  if (!kernel_resolves_) return -ENOSYS;
  const int fd = open_once(path, flags, kResolveCached);
  return fd == -EINVAL ? -ENOSYS : fd;
}

int Beneath::open_once(const char* path, int flags, std::uint64_t resolve) const {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  std::int64_t fd = HEADRACE_FAULT("store.openat2", 0);
  if (fd != 0) return static_cast<int>(fd);
  fd = ::syscall(SYS_openat2, root_fd_, path, &how, sizeof how);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

int Beneath::open_by_walking(const char* path, int flags, Links links) const {
  DescriptorPath at(root_fd_);
  std::string rest = path;
  int followed = 0;
  int tries = 0;
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
    // Inspected before use: a descriptor keeps its meaning, whatever the name refers to later.
    const int seen = open_entry(at.top(), name.c_str(), O_PATH);
    if (seen == -EINTR && ++tries < kTries) continue;
    if (seen < 0) return seen;
    struct stat st;
    const int bad = ::fstat(seen, &st) == 0 ? 0 : -errno;
    if (bad == 0 && S_ISDIR(st.st_mode) && !last) {
      at.push(seen);
      rest = after;
      continue;
    }
    if (bad == 0 && S_ISLNK(st.st_mode) && !(last && (flags & O_NOFOLLOW) != 0)) {
      char target[PATH_MAX];
      const ssize_t n = ::readlinkat(seen, "", target, sizeof target);
      ::close(seen);
      if (links == Links::kRefuse || ++followed > kMaxLinks) return -ELOOP;
      if (n <= 0) return -ENOENT;
      if (static_cast<std::size_t>(n) == sizeof target) return -ENAMETOOLONG;
      if (target[0] == '/') return -EXDEV;
      rest.assign(target, static_cast<std::size_t>(n));
      rest += after;
      continue;
    }
    if (bad != 0 || !last || ((flags & O_PATH) != 0 && ((flags & O_DIRECTORY) == 0 || S_ISDIR(st.st_mode)))) {
      if (bad == 0 && last) return seen;
      ::close(seen);
      return bad != 0 ? bad : -ENOTDIR;
    }
    ::close(seen);
    const int fd = open_entry(at.top(), name.c_str(), flags);
    // It is now a link, or no longer a directory: it was exchanged since the check.
    const bool changed = (fd == -ELOOP && !S_ISLNK(st.st_mode)) || (fd == -ENOTDIR && S_ISDIR(st.st_mode));
    if ((changed || fd == -EINTR) && ++tries < kTries) continue;
    return changed ? -EAGAIN : fd;
  }
}

}  // namespace headrace::store
