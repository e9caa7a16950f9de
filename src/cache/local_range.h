// LocalRanges: ranges of a cached store that lie in files of this machine, to be read as any other file is: by engines,
// out of the page cache, by a device's mappings.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "os/file_handle.h"

namespace headrace::cache {

// All of a range that was asked for, or as much of it as the object has.
struct LocalRange {
  std::shared_ptr<const void> file;  // keeps fd and path
  int fd = -1;
  const char* path = nullptr;
  os::FileIdentity identity;        // of the file, just now
  std::uint64_t at = 0, bytes = 0;  // in the file
  std::uint64_t object_bytes = 0;   // of the whole object
};

class LocalRanges {
 public:
  // Bytes [offset, offset + length) of an object, where the cache has them, they are of the version that the store
  // behind has named (and `version` is empty or that), their checksum was compared, and the file has not been changed
  // since. False: the store is to be asked, which gives or fetches and keeps them. Allocates nothing.
  virtual bool find_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                          LocalRange& out) noexcept = 0;
  // Whether such a range of an object that has a version is there, or would stay when it has been fetched.
  virtual bool keeps_range(std::string_view key, std::uint64_t offset, std::uint64_t length) const noexcept = 0;

 protected:
  ~LocalRanges() = default;
};

}  // namespace headrace::cache
