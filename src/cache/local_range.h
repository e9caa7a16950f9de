// LocalRanges: ranges of a cached store that lie in local files and can be read like any other file: by engines, from
// the page cache, through a device's mappings.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "os/file_handle.h"

namespace headrace::cache {

// The whole requested range, or as much of it as the object has.
struct LocalRange {
  std::shared_ptr<const void> file;  // keeps `fd` and `path` valid
  int fd = -1;
  const char* path = nullptr;
  os::FileIdentity identity;        // the file's, as of now
  std::uint64_t at = 0, bytes = 0;  // range in the file
  std::uint64_t object_bytes = 0;   // the whole object's
};

class LocalRanges {
 public:
  // Finds bytes [offset, offset + length) of an object in a local file. True only if the cache has them, their version
  // is the one that the underlying store has reported (and `version` is empty or equal), their checksum was verified,
  // and the file is unchanged since. False: read through the store, which serves or fetches and caches them. Allocates
  // nothing.
  virtual bool find_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                          LocalRange& out) noexcept = 0;
  // Whether such a range of a versioned object is cached, or would be after it is fetched.
  virtual bool keeps_range(std::string_view key, std::uint64_t offset, std::uint64_t length) const noexcept = 0;

 protected:
  ~LocalRanges() = default;
};

}  // namespace headrace::cache
