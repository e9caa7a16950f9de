// CacheDirectory: a cache's directory with its segment files, and the lock and the secret that processes share.
//
// Threads: const calls from any thread; a Lock belongs to one thread at a time.
// Owns:    its descriptors.
// Fails:   kPermission where the directory belongs to another user or others can write to it; kInvalidArgument where a
//          file is in its place or its parent does not exist; kNotFound where it is missing and must not be created;
//          kIo.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/keyed_hash.h"
#include "os/owned_descriptor.h"

namespace headrace::cache {

class CacheDirectory {
 public:
  static constexpr const char* kSuffix = ".hrseg";

  // `make`: creates the directory and its secret if missing; the parent must exist.
  static Result<CacheDirectory> open(const std::string& path, bool make);

  // Held while segments are created, removed or appended to, so that all processes share one budget. The kernel
  // releases it when its holder exits, however that happens.
  class Lock {
   public:
    Lock() = default;
    explicit Lock(int fd) noexcept : fd_(fd) {}
    Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Lock& operator=(Lock&& other) noexcept {
      std::swap(fd_, other.fd_);
      return *this;
    }
    ~Lock();
    explicit operator bool() const noexcept { return fd_ >= 0; }

   private:
    int fd_ = -1;
  };
  // Waits up to `patience_ns`. Empty if another process holds the lock, or if the directory is read-only.
  Lock lock(std::uint64_t patience_ns) const noexcept;

  struct NamedSegment {
    std::string name;
    std::uint64_t file_bytes = 0;
    std::int64_t used_ns = 0;  // approximate time of the last read or write
  };
  // This user's regular files with segment names, least recently used first. Throws std::bad_alloc.
  Status list(std::vector<NamedSegment>& out) const;
  // Opens a regular file of this user; -1 if there is none, or it is something else.
  os::OwnedDescriptor open_segment(const std::string& name, bool write) const noexcept;
  // Creates a segment, locked and with its head; -1 and `error` on failure.
  os::OwnedDescriptor make_segment(std::string& name, int& error) const;
  // Whether no other process appends to `file`; if so, none does until `file` is closed.
  static bool claim(const os::OwnedDescriptor& file) noexcept;
  bool remove(const std::string& name) const noexcept;
  // Bytes that may still be written without filling the disk.
  std::uint64_t disk_room() const noexcept;
  std::uint64_t disk_free() const noexcept;

  const std::string& path() const noexcept { return path_; }
  bool writable() const noexcept { return static_cast<bool>(lock_); }
  std::uint64_t device() const noexcept { return device_; }
  std::uint64_t inode() const noexcept { return inode_; }
  const CacheSecret& secret() const noexcept { return secret_; }
  bool has_secret() const noexcept { return has_secret_; }
  std::uint64_t fingerprint() const noexcept { return KeyedHash(secret_).of("fingerprint").low; }

 private:
  Status load_secret(bool make);
  std::string path_;
  os::OwnedDescriptor directory_, lock_;
  std::uint64_t device_ = 0, inode_ = 0;
  CacheSecret secret_{};
  bool has_secret_ = false;
};

}  // namespace headrace::cache
