// FileHandle: a regular file or block device, opened by path or adopted from a caller's descriptor, with the facts that
// decide between I/O paths.
//
// Opening a handle claims it. Once the last claim ends, the file is idle and kept open only for reuse: its descriptors
// then count as the library's (Descriptors), and a keeper may close it for others.
//
// Threads: every call from any thread.
// Owns:    its descriptors, closed on destruction.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/fork.h"
#include "os/direct_align.h"

struct stat;

namespace headrace::os {

// Equal identities mean the same bytes, provided the first was settled when it was taken; docs/reference lists the
// changes that no identity shows. Linux's change counter (STATX_CHANGE_COOKIE) is not available to user space.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;
  bool operator==(const FileIdentity&) const = default;
  // Whether at most changed_ns differs. Links, names and permissions change it too: a file that is replaced gets a new
  // changed_ns when its name is removed.
  bool same_except_changed_ns(const FileIdentity& other) const noexcept {
    return device == other.device && inode == other.inode && size_bytes == other.size_bytes &&
           modified_ns == other.modified_ns;
  }
};

FileIdentity identity_of(const struct ::stat& st) noexcept;
// Of an open descriptor or a path. On failure: false, with errno in `error`.
bool identify(int fd, FileIdentity& out, int& error) noexcept;
bool identify(const char* path, FileIdentity& out, int& error) noexcept;
// For how many more nanoseconds a change could leave the identity unchanged, because the file system's clock must tick
// first; 0: any change would show. Time stamps that end in zeros are taken to be that coarse; stamps in the future
// stay unsettled until then. `fd`: an open descriptor of the file; its stamps may come from another machine or be
// finer than the clock.
std::int64_t unsettled_ns(int fd, const FileIdentity& identity) noexcept;
// Changed less than a tenth of a second ago, or within the granularity of its time stamps.
bool recently_changed(const FileIdentity& identity) noexcept;

struct OpenMode {
  bool write = false, create = false, truncate = false;
  bool exclusive = false;  // with create: fail if the name exists, even as a symbolic link
};

class FileHandle {
 public:
  // kNotFound, kPermission, kInvalidArgument (neither a regular file nor a block device), otherwise kIo.
  static Status open(std::string_view path, const OpenMode& mode, FileHandle& out);
  // Adopts a descriptor, which stays the caller's, with its access mode. If it was opened with O_DIRECT, a second one
  // without it is opened through /proc; has_buffered() says whether that was possible. kInvalidArgument with EBADF: not
  // an open descriptor; with EINVAL: neither a regular file nor a block device.
  static Status adopt(int descriptor, FileHandle& out);
  FileHandle() = default;
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle();

  // REQUIRES: it has at least one claim.
  void claim() noexcept { claims_.fetch_add(1, std::memory_order_relaxed); }
  // Takes the locks of Descriptors and its keepers.
  void end_claim() noexcept;
  bool claimed() const noexcept { return claims_.load(std::memory_order_acquire) != 0; }

  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_; }
  bool readable() const noexcept { return readable_; }
  bool writable() const noexcept { return writable_; }
  bool has_buffered() const noexcept { return has_buffered_; }  // fd() uses the page cache
  bool on_network() const noexcept { return on_network_; }
  bool in_memory() const noexcept { return in_memory_; }  // tmpfs: its pages are always in memory
  bool is_regular() const noexcept { return regular_; }

  // A descriptor of the same file with O_DIRECT, opened at the first call; -1 if the file system refuses.
  int direct_fd() noexcept;
  // For file systems that open with O_DIRECT but refuse to read or write: direct_fd() gives -1 from then on.
  void give_up_direct() noexcept { direct_refused_.store(true, std::memory_order_relaxed); }
  const DirectAlignment& direct_alignment() const noexcept { return alignment_; }  // valid once direct_fd() >= 0

  Status size(std::uint64_t& bytes) const;  // also of a block device
  Status sync() const;

 private:
  std::string path_;
  int fd_ = -1;
  bool readable_ = true, writable_ = false, has_buffered_ = true;
  bool on_network_ = false, in_memory_ = false, regular_ = true;
  int access_mode() const noexcept;
  void note_filesystem() noexcept;
  std::mutex direct_mutex_;
  std::atomic<int> direct_fd_{kNotTried};  // written under direct_mutex_
  std::atomic<bool> direct_refused_{false};
  DirectAlignment alignment_;  // written before direct_fd_
  static constexpr int kNotTried = -2;
  std::atomic<std::uint32_t> claims_{1};  // the opener's claim
  int counted_ = 0;                       // descriptors counted in Descriptors while unclaimed
  const std::uint64_t fork_generation_ = base::fork_generation();
};

// Writes all of `data` at `offset`, continuing after short writes. kResourceExhausted for a full disk or quota,
// otherwise kIo, with errno.
Status write_exactly(int fd, std::uint64_t offset, const std::byte* data, std::uint64_t bytes,
                     std::uint64_t& system_calls);

}  // namespace headrace::os
