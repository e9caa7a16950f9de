// CacheDirectory: the directory of a cache, its files, and the lock and the secret that processes share.
//
// Threads: const calls from any thread; a Lock is one thread's at a time.
// Owns:    its descriptors.
// Fails:   kPermission where the directory is somebody else's or others can write to it; kInvalidArgument where there
//          is a file in its place, or nothing that it could be made in; kNotFound where it is not to be made; kIo.
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

  // `make`: it and its secret are made where they are missing; its parent has to be there.
  static Result<CacheDirectory> open(const std::string& path, bool make);

  // Held while files are made, removed or appended to, so that the budget is one for all processes. Ends with its
  // holder, however that ends.
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
  // Tries for so long; nothing where another process keeps it, or where nothing can be written.
  Lock lock(std::uint64_t patience_ns) const noexcept;

  struct NamedSegment {
    std::string name;
    std::uint64_t file_bytes = 0;
    std::int64_t used_ns = 0;  // when it was read or written last, roughly
  };
  // Regular files of this user with names of segments, those used longest ago first. Throws std::bad_alloc.
  Status list(std::vector<NamedSegment>& out) const;
  // Of a regular file of this user alone; -1: there is none, or it is something else.
  os::OwnedDescriptor open_segment(const std::string& name, bool write) const noexcept;
  // Made, locked and with its head; -1 and errno where that fails.
  os::OwnedDescriptor make_segment(std::string& name, int& error) const;
  // Whether no process appends to it; if so, none does until `file` is closed.
  static bool claim(const os::OwnedDescriptor& file) noexcept;
  bool remove(const std::string& name) const noexcept;
  // Bytes that may still be written without filling the disk up.
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
