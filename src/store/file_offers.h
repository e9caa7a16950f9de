// FileOffers: additional operations of stores whose objects are local files.
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

// Equal if two paths of a store lead to the same directory.
struct DirectoryId {
  std::uint64_t device = 0, inode = 0;
  auto operator<=>(const DirectoryId&) const = default;
};

class FileOffers {
 public:
  // An O_DIRECT descriptor of an open object's file, which the caller closes. kUnsupported, with the reason: not a
  // file, or the file system refuses O_DIRECT.
  virtual Result<int> open_direct(std::string_view key, const ByteSource& object) = 0;

  // A path under which the kernel may find the object's file, NUL-terminated; false if there is none. A file opened by
  // this path is used only if it proves to be the same file that open() returned. Throws std::bad_alloc.
  virtual bool local_path(std::string_view key, std::string& out) = 0;

  // Whether the object exists, has at most `limit` bytes, and can be opened and read now without waiting for a
  // disk or network; false if the system does not report that. Never blocks and allocates nothing. REQUIRES: as
  // for Store::open().
  virtual bool at_hand(std::string_view key, std::uint64_t limit) {
    (void)key;
    (void)limit;
    return false;
  }

  // The identity of the directory `prefix`. Nothing if no two paths can lead to one directory, or if it is unknown.
  virtual std::optional<DirectoryId> identify_directory(std::string_view prefix) {
    (void)prefix;
    return std::nullopt;
  }

 protected:
  ~FileOffers() = default;
};

}  // namespace headrace::store
