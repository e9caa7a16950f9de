#include "os/file_handle.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/fault.h"
#include "os/descriptors.h"
#include "os/file_read.h"
#include "os/filesystem.h"

namespace headrace::os {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kRecentNs = 100'000'000;

std::int64_t to_ns(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

// A whole second may mean a granularity of two seconds (FAT).
std::int64_t grain_ns(std::int64_t stamp_ns) {
  if (stamp_ns % kSecondNs == 0) return 2 * kSecondNs;
  std::int64_t grain = 1;
  while (stamp_ns % (10 * grain) == 0) grain *= 10;
  return grain;
}

// From Linux 6.13 on, after a file's stamps have been queried, its next change gets a distinct stamp.
bool stamps_distinguish(const FilesystemKind& kind) {
  static const bool kernel_does = [] {
    utsname name{};
    unsigned major = 0, minor = 0;
    return ::uname(&name) == 0 && std::sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
           std::pair(major, minor) >= std::pair(6u, 13u);
  }();
  const std::string_view fs = kind.name;
  return kernel_does && (fs == "ext4" || fs == "xfs" || fs == "btrfs" || fs == "tmpfs");
}

// Until this time a change may leave the identity unchanged. The change time alone suffices, as it cannot be set,
// except on file systems that do not keep it.
std::int64_t settled_at_ns(const FileIdentity& identity) {
  const std::int64_t changed = identity.changed_ns + grain_ns(identity.changed_ns);
  return identity.changed_ns >= identity.modified_ns
             ? changed
             : std::max(changed, identity.modified_ns + grain_ns(identity.modified_ns));
}

Status open_failure(int error, const std::string& path, const OpenMode& mode) {
  Code code = Code::kIo;
  std::string message = std::string("cannot open the file for ") + (mode.write ? "writing" : "reading");
  if (error == ENOENT || error == ENOTDIR) {
    code = Code::kNotFound;
    message = "no such file";
  } else if (error == EACCES || error == EPERM || error == EROFS) {
    code = Code::kPermission;
  } else if (error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE) {
    code = Code::kResourceExhausted;
  } else if (error == EISDIR) {
    code = Code::kInvalidArgument;
    message = "this is a directory, not a file";
  }
  return Status(code, Layer::kBase, std::move(message)).with_key(path).with_errno(error);
}

}  // namespace

FileIdentity identity_of(const struct ::stat& st) noexcept {
  FileIdentity out;
  out.device = st.st_dev;
  out.inode = st.st_ino;
  out.size_bytes = static_cast<std::uint64_t>(st.st_size);
  out.modified_ns = to_ns(st.st_mtim);
  out.changed_ns = to_ns(st.st_ctim);
  return out;
}

bool identify(int fd, FileIdentity& out, int& error) noexcept {
  struct stat st;
  std::int64_t result = ::fstat(fd, &st) == 0 ? 0 : -errno;
  result = HEADRACE_FAULT("base.fstat", result);
  error = static_cast<int>(-result);
  if (result < 0) return false;
  out = identity_of(st);
  return true;
}

bool identify(const char* path, FileIdentity& out, int& error) noexcept {
  struct stat st;
  std::int64_t result = ::stat(path, &st) == 0 ? 0 : -errno;
  result = HEADRACE_FAULT("base.stat", result);
  error = static_cast<int>(-result);
  if (result < 0) return false;
  out = identity_of(st);
  return true;
}

std::int64_t unsettled_ns(int fd, const FileIdentity& identity) noexcept {
  constexpr std::int64_t kCoarseNs = 1'000'000;
  timespec now;
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);  // the clock that stamps files
  const std::int64_t left_ns = settled_at_ns(identity) - to_ns(now);
  if (left_ns <= -kRecentNs) return 0;
  const FilesystemKind kind = filesystem_kind(fd);
  if (kind.is_network || kind.is_fuse) return left_ns + kRecentNs;  // a server's clock may lag by that much
  if (left_ns <= 0 || (grain_ns(identity.changed_ns) < kCoarseNs && stamps_distinguish(kind))) return 0;
  timespec tick;
  ::clock_getres(CLOCK_REALTIME_COARSE, &tick);
  return std::max(left_ns, to_ns(tick));
}

bool recently_changed(const FileIdentity& identity) noexcept {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  return settled_at_ns(identity) > to_ns(now) - kRecentNs;
}

Status FileHandle::open(std::string_view path, const OpenMode& mode, FileHandle& out) {
  out.path_ = path;
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return Status(Code::kInvalidArgument, Layer::kBase, "a file name must not be empty or contain a NUL byte");
  }
  // O_NONBLOCK: a pipe put in a file's place must not make the open wait for a writer.
  int flags = O_CLOEXEC | O_NONBLOCK | (mode.write ? O_RDWR : O_RDONLY);
  if (mode.write && mode.create) flags |= O_CREAT;
  if (mode.write && mode.create && mode.exclusive) flags |= O_EXCL;
  if (mode.write && mode.truncate) flags |= O_TRUNC;
  const int fd = open_patiently([&] {
    const std::int64_t fault = HEADRACE_FAULT("base.open", 0);
    if (fault != 0) return static_cast<int>(fault);
    const int opened = ::open(out.path_.c_str(), flags, 0666);
    return opened < 0 ? -errno : opened;
  });
  if (fd < 0) return open_failure(-fd, out.path_, mode);
  out.fd_ = fd;
  out.writable_ = mode.write;
  struct stat st;
  if (::fstat(out.fd_, &st) != 0) return open_failure(errno, out.path_, mode);
  out.regular_ = S_ISREG(st.st_mode);
  if (!out.regular_ && !S_ISBLK(st.st_mode)) {
    return Status(Code::kInvalidArgument, Layer::kBase, "neither a regular file nor a block device")
        .with_key(out.path_);
  }
  out.note_filesystem();
  return {};
}

Status FileHandle::adopt(int descriptor, FileHandle& out) {
  std::int64_t own = HEADRACE_FAULT("base.adopt", 0);
  if (own == 0) {
    own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (own < 0) own = -errno;
  }
  if (own < 0) {
    const int error = static_cast<int>(-own);
    const bool none = error == EMFILE || error == ENFILE;
    return Status(none ? Code::kResourceExhausted : Code::kInvalidArgument, Layer::kBase,
                  none ? "out of descriptors for opening the file a second time: raise ulimit -n"
                       : "descriptor " + std::to_string(descriptor) + " is not open")
        .with_errno(error);
  }
  out.fd_ = static_cast<int>(own);
  char link[48], name[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", out.fd_);
  const ssize_t length = ::readlink(link, name, sizeof name);
  out.path_ =
      length > 0 ? std::string(name, static_cast<std::size_t>(length)) : "descriptor " + std::to_string(descriptor);
  struct stat st;
  const int flags = ::fcntl(out.fd_, F_GETFL);
  if (flags < 0 || ::fstat(out.fd_, &st) != 0) return open_failure(errno, out.path_, {});
  out.readable_ = (flags & O_ACCMODE) != O_WRONLY;
  out.writable_ = (flags & O_ACCMODE) != O_RDONLY;
  out.regular_ = S_ISREG(st.st_mode);
  if (!out.regular_ && !S_ISBLK(st.st_mode)) {
    return Status(Code::kInvalidArgument, Layer::kBase, "neither a regular file nor a block device")
        .with_key(out.path_)
        .with_errno(EINVAL);
  }
  out.note_filesystem();
  if ((flags & O_DIRECT) == 0) return {};
  const int buffered = ::open(link, out.access_mode() | (flags & (O_SYNC | O_DSYNC)) | O_CLOEXEC);
  const int direct = buffered >= 0 ? out.fd_ : ::fcntl(out.fd_, F_DUPFD_CLOEXEC, 3);
  if (buffered >= 0) out.fd_ = buffered;
  out.has_buffered_ = buffered >= 0;
  if (direct >= 0) {
    out.alignment_ = os::direct_alignment(direct);
    out.direct_fd_.store(direct, std::memory_order_release);
  }
  return {};
}

int FileHandle::access_mode() const noexcept { return !writable_ ? O_RDONLY : readable_ ? O_RDWR : O_WRONLY; }

void FileHandle::note_filesystem() noexcept {
  const FilesystemKind kind = filesystem_kind(fd_);
  on_network_ = kind.is_network || kind.is_fuse;
  in_memory_ = kind.is_memory && regular_;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
  if (const int direct = direct_fd_.load(std::memory_order_relaxed); direct >= 0) ::close(direct);
  for (; counted_ > 0; --counted_) Descriptors::of_process().closed();
}

void FileHandle::end_claim() noexcept {
  // In a forked child, the keepers of its Descriptors do not know the files it inherited.
  if (claims_.fetch_sub(1, std::memory_order_acq_rel) != 1 || fork_generation_ != base::fork_generation()) return;
  Descriptors& all = Descriptors::of_process();
  (void)all.room();  // if the library's share is used up, files kept longer are closed first
  counted_ = direct_fd_.load(std::memory_order_relaxed) >= 0 ? 2 : 1;
  for (int i = 0; i < counted_; ++i) all.opened();
  all.idle();
}

int FileHandle::direct_fd() noexcept {
  if (direct_refused_.load(std::memory_order_relaxed)) return -1;
  int direct = direct_fd_.load(std::memory_order_acquire);
  if (direct != kNotTried) return direct;
  std::lock_guard lock(direct_mutex_);
  direct = direct_fd_.load(std::memory_order_relaxed);
  if (direct != kNotTried) return direct;
  direct = -1;
  if (!in_memory_) {
    // The descriptor's own link in /proc names the file even if its path leads to another file by now.
    char link[48];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd_);
    direct = open_patiently([&] {
      const int opened = ::open(link, access_mode() | O_DIRECT | O_CLOEXEC);
      return opened < 0 ? -errno : opened;
    });
    if (direct == -EMFILE || direct == -ENFILE) return -1;  // retried at the next call
    if (direct < 0) direct = -1;
  }
  if (direct >= 0) alignment_ = os::direct_alignment(direct);
  direct_fd_.store(direct, std::memory_order_release);
  return direct;
}

Status FileHandle::size(std::uint64_t& bytes) const {
  // Not lseek(): the file position may be shared with the caller's descriptor.
  struct stat st;
  bool known = ::fstat(fd_, &st) == 0;
  bytes = known ? static_cast<std::uint64_t>(st.st_size) : 0;
  if (known && !regular_) known = ::ioctl(fd_, BLKGETSIZE64, &bytes) == 0;
  if (!known) return Status(Code::kIo, Layer::kBase, "cannot get the file's size").with_key(path_).with_errno(errno);
  return {};
}

Status FileHandle::sync() const {
  std::int64_t result = ::fsync(fd_) == 0 ? 0 : -errno;
  result = HEADRACE_FAULT("base.fsync", result);
  if (result == 0) return {};
  const int error = static_cast<int>(-result);
  const Code code = error == ENOSPC || error == EDQUOT ? Code::kResourceExhausted : Code::kIo;
  return Status(code, Layer::kBase, "fsync failed: written data may not be on the disk")
      .with_key(path_)
      .with_errno(error);
}

Status write_exactly(int fd, std::uint64_t offset, const std::byte* data, std::uint64_t bytes,
                     std::uint64_t& system_calls) {
  std::uint64_t moved = 0;
  unsigned interrupted = 0;
  while (moved < bytes) {
    const auto n = static_cast<std::size_t>(std::min(bytes - moved, kMaxBytesPerCall));
    ++system_calls;
    std::int64_t put = ::pwrite(fd, data + moved, n, static_cast<off_t>(offset + moved));
    if (put < 0) put = -errno;
    put = HEADRACE_FAULT("base.pwrite", put);
    if (put > 0) {
      moved += static_cast<std::uint64_t>(put);
      continue;
    }
    if ((put == -EINTR || put == -EAGAIN) && ++interrupted <= kMaxInterruptions) continue;
    const int error = put == 0 ? EIO : static_cast<int>(-put);
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    return Status(full ? Code::kResourceExhausted : Code::kIo, Layer::kBase,
                  full ? "no room to write: free some space or write elsewhere" : "cannot write")
        .with_range(offset, bytes)
        .with_errno(error);
  }
  return {};
}

}  // namespace headrace::os
