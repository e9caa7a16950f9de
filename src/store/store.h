// Store: named objects. A directory, a block of memory, later a ZIP file or a bucket.
//
// Keys are relative, '/'-separated, UTF-8; valid_key() says which are accepted, and no store opens anything for
// another.
//
// Threads: every call may be made from any thread at any time.
// Fails:   kNotFound only when the object certainly does not exist; anything else that hides an object is an error.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::store {

using Bytes = std::vector<std::byte>;

// An object opened for reading. Exactly one of fd and memory is in use.
//
// Owns: the descriptors, closed on destruction; `memory` belongs to the store and lives as long as the store.
class Object {
 public:
  Object() noexcept = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  Object(Object&& other) noexcept { swap(other); }
  Object& operator=(Object&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Object() { close(); }
  void close() noexcept;
  bool is_open() const noexcept { return fd >= 0 || memory != nullptr; }

  int fd = -1;                        // buffered descriptor of a regular file
  const std::byte* memory = nullptr;  // the whole object, already in memory (never null while open, even if empty)
  std::uint64_t size_bytes = 0;

 private:
  void swap(Object& other) noexcept {
    std::swap(fd, other.fd);
    std::swap(memory, other.memory);
    std::swap(size_bytes, other.size_bytes);
  }
};

struct Entry {
  std::string name;  // last component
  bool is_directory = false;
};

class Store {
 public:
  virtual ~Store() = default;
  virtual std::string url() const = 0;  // redacted: may be logged

  // Opens `key` into `out` (closing what it held). REQUIRES: key.data()[key.size()] == '\0', so that the hot path
  // hands it to the kernel without copying. Allocates nothing.
  virtual Status open(std::string_view key, Object& out) = 0;

  // A descriptor of an open object's file that bypasses the page cache, or the reason why there is none
  // (kUnsupported: not a file, or the file system refuses O_DIRECT). The caller closes it.
  virtual Result<int> open_direct(std::string_view key, const Object& object) = 0;

  // A path by which the kernel may find the object's file, NUL-terminated; false where there is none. What is opened by
  // it is only used once it has proved to be the very file that open() gave. Throws std::bad_alloc.
  virtual bool local_path(std::string_view key, std::string& out) const {
    (void)key;
    (void)out;
    return false;
  }

  // Whole object, refused with kResourceExhausted above `limit` bytes.
  virtual Result<Bytes> get(std::string_view key, std::uint64_t limit) = 0;

  // Direct children of `prefix` ("" = root), sorted by name. kNotFound where the prefix is no directory.
  virtual Result<std::vector<Entry>> list(std::string_view prefix) = 0;

  // Creates or replaces. kUnsupported for a store opened read-only.
  virtual Status put(std::string_view key, std::span<const std::byte> bytes) = 0;
};

// Components are non-empty, none is "." or "..", no NUL, no backslash, at most 4,096 bytes in all, 255 a component.
bool valid_key(std::string_view key) noexcept;
Status check_key(std::string_view key);

struct StoreRow {
  const char* scheme;                                                 // "file", "memory"
  Result<std::shared_ptr<Store>> (*open)(std::string_view location);  // what follows "scheme://"
};

std::span<const StoreRow> stores();

// "file:///path", a plain path, or "memory://name" (one per name and process, for tests and embedding).
Result<std::shared_ptr<Store>> open_store(std::string_view url);

}  // namespace headrace::store
