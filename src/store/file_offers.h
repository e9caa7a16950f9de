// FileOffers: what a store can do besides where its objects are files of this machine.
//
// Threads: every call from any thread at any time.
#pragma once

#include <headrace/status.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/byte_source.h"

namespace headrace::store {

// Two paths of a store lead to one directory if these are equal.
struct DirectoryId {
  std::uint64_t device = 0, inode = 0;
  auto operator<=>(const DirectoryId&) const = default;
};

class FileOffers {
 public:
  // A descriptor of an open object's file that bypasses the page cache, or the reason why there is none
  // (kUnsupported: not a file, or the file system refuses O_DIRECT). The caller closes it.
  virtual Result<int> open_direct(std::string_view key, const ByteSource& object) = 0;

  // A path by which the kernel may find the object's file, NUL-terminated; false where there is none. What is opened by
  // it is only used once it has proved to be the very file that open() gave. Throws std::bad_alloc.
  virtual bool local_path(std::string_view key, std::string& out) = 0;

  // Whether the object is there, has at most `limit` bytes, and can be opened and read now without anybody waiting for
  // a disk or a network, as far as the system tells; false where it does not. Waits for neither itself; allocates
  // nothing. REQUIRES: as for Store::open().
  virtual bool at_hand(std::string_view key, std::uint64_t limit) {
    (void)key;
    (void)limit;
    return false;
  }

  // Which directory `prefix` is. Nothing where no two paths lead to one, or where it cannot be told.
  virtual std::optional<DirectoryId> identify_directory(std::string_view prefix) {
    (void)prefix;
    return std::nullopt;
  }

 protected:
  ~FileOffers() = default;
};

}  // namespace headrace::store
