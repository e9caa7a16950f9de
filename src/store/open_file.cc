#include "store/open_file.h"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "base/fault.h"
#include "os/filesystem.h"
#include "store/store.h"

namespace headrace::store {

Status system_failure(int error, std::string_view key, std::string_view what) {
  Code code = Code::kIo;
  std::string message(what);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      code = Code::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = Code::kPermission;
      break;
    case EXDEV:
      code = Code::kPermission;
      message += ": the path leads outside the store's root";
      break;
    case ELOOP:
      message += ": too many symbolic links";
      break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      code = Code::kResourceExhausted;
      break;
    case ENAMETOOLONG:
      code = Code::kInvalidArgument;
      break;
    case EINTR:
    case EAGAIN:
      code = Code::kAgainExhausted;
      break;
    default:
      break;
  }
  return Status(code, Layer::kStore, std::move(message)).with_key(key).with_errno(error);
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "no regular file";
}

bool held_elsewhere(int fd) noexcept {
  const os::FilesystemKind kind = os::filesystem_kind(fd);
  return kind.is_network || kind.is_fuse;
}

Status open_regular(const Beneath& root, const char* path, std::string_view name, int& fd, std::uint64_t& size_bytes) {
  os::OwnedDescriptor opened(root.open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (!opened) return system_failure(opened.error(), name, "cannot open file");
  struct stat st {};
  std::int64_t rc = HEADRACE_FAULT("store.fstat", 0);
  if (rc == 0 && ::fstat(opened.get(), &st) != 0) rc = -errno;
  if (rc < 0) return system_failure(static_cast<int>(-rc), name, "cannot stat file");
  if (!S_ISREG(st.st_mode)) {
    return Status(Code::kIo, Layer::kStore, std::string("the file is ") + kind_of(st.st_mode) + ", not a regular file")
        .with_key(name);
  }
  // With O_NONBLOCK left on, io_uring gives EAGAIN for files on file systems that cannot read without blocking.
  rc = HEADRACE_FAULT("store.fcntl", 0);
  if (rc == 0 && ::fcntl(opened.get(), F_SETFL, 0) != 0) rc = -errno;
  if (rc < 0) return system_failure(static_cast<int>(-rc), name, "cannot set the descriptor's flags");
  size_bytes = static_cast<std::uint64_t>(st.st_size);
  fd = opened.release();
  return {};
}

Status split_at_file(std::string_view location, const std::string& what, std::string& path, std::string& inside) {
  path = location;
  inside.clear();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, Layer::kStore, "not a path").with_key(path);
  }
  // The last component that exists must be the file.
  for (;;) {
    struct stat st {};
    if (::stat(path.c_str(), &st) == 0) {
      if (S_ISREG(st.st_mode)) break;
      if (S_ISDIR(st.st_mode) && !inside.empty()) {
        return Status(Code::kNotFound, Layer::kStore, "no such " + what).with_key(location);
      }
      return Status(Code::kInvalidArgument, Layer::kStore, "not a " + what + " but " + kind_of(st.st_mode))
          .with_key(path);
    }
    if (errno != ENOENT && errno != ENOTDIR) return system_failure(errno, path, "cannot open the " + what);
    const std::size_t last = path.rfind('/');
    const std::size_t end = last == std::string::npos ? last : path.find_last_not_of('/', last);
    if (end == std::string::npos) {
      return Status(Code::kNotFound, Layer::kStore, "no such " + what).with_key(location);
    }
    inside = path.substr(last + 1) + (inside.empty() ? "" : "/") + inside;
    path.resize(end + 1);
  }
  return inside.empty() ? Status() : check_key(inside);
}

}  // namespace headrace::store
