#include "os/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "base/checked.h"
#include "base/fault.h"
#include "os/descriptors.h"
#include "os/file_mapping.h"
#include "os/filesystem.h"
#include "os/page_cache.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace headrace::os {
CachedRead read_cached(int fd, std::uint64_t offset, std::span<std::byte> out, std::uint64_t& moved,
                       int& error) noexcept {
  int flags = RWF_NOWAIT;
  moved = 0;
  unsigned interrupted = 0;
  while (moved < out.size()) {
    iovec vec{out.data() + moved, static_cast<std::size_t>(std::min(out.size() - moved, kMaxBytesPerCall))};
    std::int64_t got = ::preadv2(fd, &vec, 1, static_cast<off_t>(offset + moved), flags);
    if (got < 0) got = -errno;
    got = HEADRACE_FAULT("base.preadv2", got);
    if (got > 0) {
      moved += static_cast<std::uint64_t>(got);
    } else if (got == 0) {
      return CachedRead::kEndOfFile;
    } else if (got == -EAGAIN && flags != 0) {
      return CachedRead::kNotCached;
    } else if ((got == -EOPNOTSUPP || got == -ENOSYS) && flags != 0) {
      flags = 0;
    } else if ((got != -EINTR && got != -EAGAIN) || ++interrupted > kMaxInterruptions) {
      error = static_cast<int>(-got);
      return CachedRead::kFailed;
    }
  }
  return CachedRead::kDone;
}

Residency residency(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
  const auto cached = query_cachestat(fd, offset, length);
  if (!cached.has_value()) return Residency::kUnknown;
  // On an overlay the file's own inode has no pages; the underlying one has.
  if (*cached == 0) return filesystem_kind(fd).is_overlay ? Residency::kUnknown : Residency::kNotCached;
  const std::uint64_t pages = base::ceil_div<std::uint64_t>(offset + length, page_bytes()) - offset / page_bytes();
  return nearly_cached(*cached, pages) ? Residency::kCached : Residency::kPartly;
}

void want_cached(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
  (void)::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_WILLNEED);
}

Status read_exactly(int fd, std::uint64_t offset, std::span<std::byte> out, std::uint64_t begin) {
  std::size_t moved = 0;
  unsigned interrupted = 0;
  while (moved < out.size()) {
    std::int64_t got = ::pread(fd, out.data() + moved, out.size() - moved, static_cast<off_t>(begin + offset + moved));
    if (got < 0) got = -errno;
    got = HEADRACE_FAULT("base.pread", got);
    if (got > 0) {
      moved += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return Status(Code::kShort, Layer::kBase,
                    "the file ends after " + std::to_string(moved) + " of the requested bytes")
          .with_range(offset, out.size());
    } else if ((got != -EINTR && got != -EAGAIN) || ++interrupted > kMaxInterruptions) {
      return Status(Code::kIo, Layer::kBase, "cannot read")
          .with_range(offset, out.size())
          .with_errno(static_cast<int>(-got));
    }
  }
  return {};
}

Status read_file_start(const char* path, std::span<std::byte> out) {
  // O_NONBLOCK: opening a pipe must not wait for a writer. pread then refuses the pipe.
  const int fd = open_patiently([path] {
    const std::int64_t fault = HEADRACE_FAULT("base.open", 0);
    if (fault != 0) return static_cast<int>(fault);
    const int opened = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return opened < 0 ? -errno : opened;
  });
  if (fd < 0) {
    const int error = -fd;
    const Code code = error == ENOENT || error == ENOTDIR  ? Code::kNotFound
                      : error == EACCES || error == EPERM  ? Code::kPermission
                      : error == EMFILE || error == ENFILE ? Code::kResourceExhausted
                                                           : Code::kIo;
    return Status(code, Layer::kBase, "cannot open the file").with_errno(error);
  }
  Status status = read_exactly(fd, 0, out);
  ::close(fd);
  return status;
}

void close_descriptor(int fd) noexcept {
  if (fd >= 0) ::close(fd);
}

}  // namespace headrace::os
