#include "cache/cache_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "cache/segment_format.h"
#include "os/trusted_path.h"

namespace headrace::cache {
namespace {

constexpr const char* kSecretName = "secret";
constexpr const char* kLockName = "lock";
constexpr std::uint64_t kMaxReserve = std::uint64_t{1} << 30;

Status failed(Code code, const std::string& path, const std::string& what) {
  return Status(code, Layer::kStore, "the cache directory " + path + " " + what);
}

Status failed(int error, const std::string& path, const std::string& what) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound
                    : error == EACCES || error == EPERM ? Code::kPermission
                                                        : Code::kIo;
  return failed(code, path, what).with_errno(error);
}

bool random_bytes(void* out, std::size_t size) noexcept {
  return ::getrandom(out, size, 0) == static_cast<ssize_t>(size);
}

bool is_own_file(int fd, std::uint64_t* size = nullptr) noexcept {
  struct stat about {};
  if (::fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != ::geteuid()) return false;
  if (size != nullptr) *size = static_cast<std::uint64_t>(about.st_size);
  return true;
}

constexpr const char* kNameAnother = "name another directory with cache_dir or HEADRACE_CACHE_DIR";

// Folders above it are checked once it exists. A missing parent is not reported as kNotFound, which means a missing
// object of a store.
Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  const int error = errno;
  const char* const why = error == ENOENT    ? "its parent directory does not exist"
                          : error == ENOTDIR ? "its parent is a file"
                                             : nullptr;
  if (why == nullptr)
    return failed(error, path, std::string("cannot be created: create it yourself, or ") + kNameAnother);
  return failed(Code::kInvalidArgument, path, std::string("cannot be created, ") + why + ": " + kNameAnother)
      .with_errno(error);
}

}  // namespace

CacheDirectory::Lock::~Lock() {
  if (fd_ >= 0) ::flock(fd_, LOCK_UN);
}

Result<CacheDirectory> CacheDirectory::open(const std::string& path, bool make) {
  CacheDirectory out;
  struct stat about {};
  std::string bare = path;
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  if (make && ::lstat(bare.c_str(), &about) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    HEADRACE_TRY(make_directory(bare));
  }
  if (::stat(bare.c_str(), &about) == 0 && !S_ISDIR(about.st_mode)) {
    return failed(Code::kInvalidArgument, path, std::string("is a file, not a directory: ") + kNameAnother);
  }
  // The "/." makes the check cover the directory itself, which must not be sticky; a parent, such as /tmp, may be.
  auto resolved = os::resolve_trusted(bare + "/.");
  if (!resolved.ok()) {
    const Status& why = resolved.status();
    const char* advice =
        why.code() == Code::kNotFound ? "does not exist" : "is not used: only its owner may write to it";
    Status status = failed(why.code(), path, advice).with_cause(why.message());
    return why.system_error() == 0 ? status : std::move(status).with_errno(why.system_error());
  }
  out.path_ = std::move(resolved).value();
  out.directory_ = os::OwnedDescriptor(::open(out.path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!out.directory_) return failed(errno, path, "cannot be opened");
  if (::fstat(out.directory_.get(), &about) != 0) return failed(errno, path, "cannot be examined");
  if (about.st_uid != ::geteuid()) {
    return failed(Code::kPermission, path,
                  "belongs to user " + std::to_string(about.st_uid) + ": name one of your own");
  }
  if (const std::string why = os::why_others_can_write(about, false); !why.empty()) {
    return failed(Code::kPermission, path, why + ": remove the permission (chmod 700)");
  }
  out.device_ = about.st_dev;
  out.inode_ = about.st_ino;
  const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (make ? O_CREAT : 0);
  os::OwnedDescriptor lock(::openat(out.directory_.get(), kLockName, flags, S_IRUSR | S_IWUSR));
  if (lock && is_own_file(lock.get())) out.lock_ = std::move(lock);
  HEADRACE_TRY(out.load_secret(make));
  return out;
}

Status CacheDirectory::load_secret(bool make) {
  const auto read_it = [&] {
    const os::OwnedDescriptor file(
        ::openat(directory_.get(), kSecretName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    has_secret_ = file && is_own_file(file.get()) &&
                  ::pread(file.get(), secret_.data(), sizeof secret_, 0) == static_cast<ssize_t>(sizeof secret_);
    return has_secret_;
  };
  if (read_it() || !make) return {};
  // Nothing can be read or kept: use a temporary secret, so that every look-up misses.
  if (!writable())
    return random_bytes(secret_.data(), sizeof secret_) ? Status() : failed(errno, path_, "has no secret");
  constexpr std::uint64_t kPatience = 10'000'000'000;
  const Lock held = lock(kPatience);
  if (!held) {
    return failed(Code::kTimeout, path_,
                  "is locked by another process for too long: end it, or name another directory");
  }
  if (read_it()) return {};
  // Left incomplete by a process that was killed while writing.
  (void)::unlinkat(directory_.get(), kSecretName, 0);
  if (!random_bytes(secret_.data(), sizeof secret_))
    return failed(errno, path_, "cannot get random numbers for its secret");
  const os::OwnedDescriptor file(
      ::openat(directory_.get(), kSecretName, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  // If it cannot be written, the secret is this process's alone, and later processes find nothing.
  has_secret_ = file && ::pwrite(file.get(), secret_.data(), sizeof secret_, 0) == static_cast<ssize_t>(sizeof secret_);
  return {};
}

CacheDirectory::Lock CacheDirectory::lock(std::uint64_t patience_ns) const noexcept {
  if (!lock_) return {};
  const std::uint64_t until = base::now_ns() + patience_ns;
  while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && (errno != EWOULDBLOCK || base::now_ns() >= until)) return {};
    const timespec pause{0, 500'000};
    ::nanosleep(&pause, nullptr);
  }
  return Lock(lock_.get());
}

Status CacheDirectory::list(std::vector<NamedSegment>& out) const {
  out.clear();
  const int fd = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed(errno, path_, "cannot be opened");
  DIR* const opened = ::fdopendir(fd);
  if (opened == nullptr) {
    const int error = errno;
    ::close(fd);
    return failed(error, path_, "cannot be listed");
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> names(opened, &::closedir);
  while (const dirent* const entry = ::readdir(names.get())) {  // NOLINT(concurrency-mt-unsafe): the stream is local
    if (!std::string_view(entry->d_name).ends_with(kSuffix)) continue;
    struct stat about {};
    if (::fstatat(directory_.get(), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(about.st_mode) || about.st_uid != ::geteuid()) continue;
    out.push_back({entry->d_name, static_cast<std::uint64_t>(about.st_size),
                   std::int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec});
  }
  std::sort(out.begin(), out.end(), [](const NamedSegment& a, const NamedSegment& b) {
    return a.used_ns != b.used_ns ? a.used_ns < b.used_ns : a.name < b.name;
  });
  return {};
}

os::OwnedDescriptor CacheDirectory::open_segment(const std::string& name, bool write) const noexcept {
  // O_NONBLOCK: opening a FIFO of this name must not block.
  os::OwnedDescriptor file(
      ::openat(directory_.get(), name.c_str(), (write ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return file && is_own_file(file.get()) ? std::move(file) : os::OwnedDescriptor();
}

os::OwnedDescriptor CacheDirectory::make_segment(std::string& name, int& error) const {
  std::uint64_t number = 0;
  if (!random_bytes(&number, sizeof number)) number = base::now_ns();
  char text[64];
  std::snprintf(text, sizeof text, "%d-%016llx%s", static_cast<int>(::getpid()),
                static_cast<unsigned long long>(number), kSuffix);
  name = text;
  os::OwnedDescriptor file(
      ::openat(directory_.get(), text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  error = errno;
  if (!file) return file;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const SegmentHead head = make_segment_head(
      fingerprint(), static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec));
  if (claim(file) && ::pwrite(file.get(), &head, sizeof head, 0) == static_cast<ssize_t>(sizeof head)) return file;
  error = errno;
  remove(name);
  return os::OwnedDescriptor();
}

bool CacheDirectory::claim(const os::OwnedDescriptor& file) noexcept {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

bool CacheDirectory::remove(const std::string& name) const noexcept {
  return ::unlinkat(directory_.get(), name.c_str(), 0) == 0;
}

std::uint64_t CacheDirectory::disk_free() const noexcept {
  struct statvfs about {};
  return ::fstatvfs(directory_.get(), &about) == 0 ? about.f_bavail * about.f_frsize : 0;
}

std::uint64_t CacheDirectory::disk_room() const noexcept {
  struct statvfs about {};
  if (::fstatvfs(directory_.get(), &about) != 0) return 0;
  const std::uint64_t reserve = std::min(about.f_blocks * about.f_frsize / 20, kMaxReserve);
  const std::uint64_t free = about.f_bavail * about.f_frsize;
  return free > reserve ? free - reserve : 0;
}

}  // namespace headrace::cache
