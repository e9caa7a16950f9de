// FileHandle: a regular file or block device, opened by path or from somebody's descriptor, and what the choice of a
// path needs to know of it.
//
// Whoever opens one claims it. When the last claim has ended it is only kept because it may be used again: from then on
// its descriptors count among the library's (Descriptors), and a keeper may close it for others.
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

// Two equal identities mean the same bytes if the first had settled when it was taken; see docs/reference for what no
// identity shows. Linux has a change counter as well (STATX_CHANGE_COOKIE), but keeps it from user space.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;
  bool operator==(const FileIdentity&) const = default;
  // Differs in nothing but changed_ns, which links, names and permissions move as well: a file that is replaced by
  // another gets a new one when its name goes.
  bool same_but_for_links(const FileIdentity& other) const noexcept {
    return device == other.device && inode == other.inode && size_bytes == other.size_bytes &&
           modified_ns == other.modified_ns;
  }
};

FileIdentity identity_of(const struct ::stat& st) noexcept;
// No descriptor or path: errno in `error`, false.
bool identify(int fd, FileIdentity& out, int& error) noexcept;
bool identify(const char* path, FileIdentity& out, int& error) noexcept;
// For how long yet a change might leave the identity as it is, because the file system's clock has to tick first; 0: it
// would show. Time stamps that end in zeros are taken to be that coarse, and those in the future take until then. `fd`:
// of the file, whose stamps may be another machine's, or finer than the clock.
std::int64_t unsettled_ns(int fd, const FileIdentity& identity) noexcept;
// Changed less than a tenth of a second ago, or within what its time stamps tell apart.
bool recently_changed(const FileIdentity& identity) noexcept;

struct OpenMode {
  bool write = false, create = false, truncate = false;
  bool exclusive = false;  // with create: an error where anything has the name, a link included
};

class FileHandle {
 public:
  // kNotFound, kPermission, kInvalidArgument for what is neither a regular file nor a block device, else kIo.
  static Status open(std::string_view path, const OpenMode& mode, FileHandle& out);
  // The file behind a descriptor that stays its owner's, with that descriptor's access mode. Where it was opened with
  // O_DIRECT a second one without is made through /proc; has_buffered() says whether that was possible.
  // kInvalidArgument with EBADF: not an open descriptor; with EINVAL: neither a regular file nor a block device.
  static Status adopt(int descriptor, FileHandle& out);
  FileHandle() = default;
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle();

  // REQUIRES: it is claimed by somebody.
  void claim() noexcept { claims_.fetch_add(1, std::memory_order_relaxed); }
  // Takes the locks of Descriptors and its keepers.
  void end_claim() noexcept;
  bool claimed() const noexcept { return claims_.load(std::memory_order_acquire) != 0; }

  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_; }
  bool readable() const noexcept { return readable_; }
  bool writable() const noexcept { return writable_; }
  bool has_buffered() const noexcept { return has_buffered_; }  // fd() goes through the page cache
  bool on_network() const noexcept { return on_network_; }
  bool in_memory() const noexcept { return in_memory_; }  // tmpfs: its pages are always there
  bool is_regular() const noexcept { return regular_; }

  // A descriptor of the same file past the page cache, opened at the first call; -1 where the file system refuses.
  int direct_fd() noexcept;
  // The file system opened it and refuses to read or write by it: direct_fd() gives -1 from now on.
  void give_up_direct() noexcept { direct_refused_.store(true, std::memory_order_relaxed); }
  const DirectAlignment& direct_alignment() const noexcept { return alignment_; }  // valid once direct_fd() >= 0

  Status size(std::uint64_t& bytes) const;  // of a block device, too
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
  std::atomic<std::uint32_t> claims_{1};  // its opener's
  int counted_ = 0;                       // descriptors, once nobody claims it
  const std::uint64_t fork_generation_ = base::fork_generation();
};

// All of `data` at `offset`, continuing short writes. kResourceExhausted for a full disk or quota, else kIo, with
// errno.
Status write_exactly(int fd, std::uint64_t offset, const std::byte* data, std::uint64_t bytes,
                     std::uint64_t& system_calls);

}  // namespace headrace::os
