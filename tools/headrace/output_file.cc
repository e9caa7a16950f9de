#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

namespace headrace::cli {
namespace {

// A file that the signal handler removes. Fixed buffers, because the handler must not allocate or free.
struct Guard {
  char path[4096];
  volatile std::sig_atomic_t set = 0;
};
Guard g_guards[4];  // -o, --report and --trace may be open at the same time

void remove_temporary(int signal) {
  for (const Guard& guard : g_guards) {
    if (guard.set != 0) ::unlink(guard.path);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Returns the guard's index; -1 if none is free.
int guard_temporary(const std::string& path) {
  Guard* guard = std::find_if(std::begin(g_guards), std::end(g_guards), [](const Guard& g) { return g.set == 0; });
  if (guard == std::end(g_guards) || path.size() >= sizeof(guard->path)) return -1;
  std::memcpy(guard->path, path.c_str(), path.size() + 1);
  guard->set = 1;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXFSZ, SIGXCPU}) {
    if (std::signal(signal, remove_temporary) == SIG_IGN) std::signal(signal, SIG_IGN);  // as under nohup
  }
  return static_cast<int>(guard - g_guards);
}

// The path with all symbolic links resolved; the file itself need not exist.
Result<std::string> behind_links(std::string path) {
  constexpr int kMaxLinks = 40;  // the kernel's limit
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return path;
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return Status(Code::kIo, Layer::kApi, "cannot write the output: too many symbolic links")
      .with_key(path)
      .with_errno(ELOOP);
}

}  // namespace

bool is_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

OutputFile::~OutputFile() {
  if (owns_fd_ && fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    if (guard_ >= 0) g_guards[guard_].set = 0;
  }
}

Status OutputFile::failure(const char* what, int error) const {
  const Code code = error == EACCES || error == EPERM || error == EROFS ? Code::kPermission : Code::kIo;
  return Status(code, Layer::kApi, what)
      .with_key(path_)
      .with_cause(std::generic_category().message(error))
      .with_errno(error);
}

Status OutputFile::open(const std::string& path) {
  path_ = path;
  if (is_standard_output(path)) {
    fd_ = STDOUT_FILENO;
    return {};
  }
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return failure("cannot write the output", EISDIR);
  // Paths of open descriptors are written directly, not replaced; /dev/shm is an ordinary file system.
  const bool descriptor =
      (path.rfind("/dev/", 0) == 0 && path.rfind("/dev/shm/", 0) != 0) || path.rfind("/proc/", 0) == 0;
  if (exists && (!S_ISREG(info.st_mode) || descriptor)) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) return failure("cannot open the output", errno);
    owns_fd_ = true;
    return {};
  }
  if (exists) {
    // A read-only file is not replaced, even if the directory's permissions allow it.
    if (::access(path.c_str(), W_OK) != 0) return failure("cannot write the output", errno);
  }
  // For a symbolic link, replaces or creates its target, not the link.
  HEADRACE_TRY_ASSIGN(path_, behind_links(path));
  const std::string candidate = path_ + ".headrace-" + std::to_string(::getpid()) + ".tmp";
  fd_ = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) return failure("cannot create the output", errno);
  owns_fd_ = true;
  temporary_ = candidate;
  guard_ = guard_temporary(temporary_);
  // Best effort: some file systems have no modes.
  if (exists && ::fchmod(fd_, info.st_mode & 07777) != 0) errno = 0;
  return {};
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (done < 0) {
      if (errno == EINTR) continue;
      return failure("cannot write the output", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

Status OutputFile::check_room(std::uint64_t bytes) const {
  struct statvfs info {};
  if (!any_order() || ::fstatvfs(fd_, &info) != 0 || info.f_frsize == 0) return {};
  if (bytes / info.f_frsize < info.f_bavail) return {};
  return Status(Code::kIo, Layer::kApi,
                "the output takes " + std::to_string(bytes) + " bytes, and the file system has only " +
                    std::to_string(static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize) + " free")
      .with_key(path_)
      .with_errno(ENOSPC);
}

Status OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(fd_, bytes.data(), std::min(bytes.size(), std::size_t{1} << 30), static_cast<off_t>(offset));
    if (done < 0) {
      if (errno == EINTR) continue;
      return failure("cannot write the output", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return {};
}

Status OutputFile::commit() {
  if (owns_fd_) {
    // Network file systems report a full disk on close().
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) return failure("cannot write the output", errno);
  }
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("cannot rename the finished output", errno);
  if (guard_ >= 0) g_guards[guard_].set = 0;
  temporary_.clear();
  return {};
}

}  // namespace headrace::cli
