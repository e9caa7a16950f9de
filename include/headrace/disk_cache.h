// DiskCache reports: what the directory holds in which remote stores keep what was read of them, and emptying it.
//
// A store has such a cache where the storage option `cache_dir` or HEADRACE_CACHE_DIR names a directory:
// docs/guide/remote.md says how, docs/design/cache.md what is kept and when it is served.
//
// Threads: every call from any thread, while stores of this process and of others use the directory.
// Fails:   kNotFound: no such directory; kPermission: it belongs to somebody else, or others can write to it; kIo.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

// One file of the directory. Sizes are bytes.
struct DiskCacheSegment {
  std::string name;                   // in the directory
  std::uint64_t file_bytes = 0;       // on the disk
  std::uint64_t records = 0;          // ranges of objects, whole ones
  std::uint64_t data_bytes = 0;       // of the objects
  std::uint64_t damaged_records = 0;  // inspect_disk_cache() with `verify`: those whose checksum is wrong
  std::uint64_t torn_bytes = 0;       // at the end, of a process that was killed: cut off by who appends next
  bool sealed = false;                // full, and with a list of its records
  bool growing = false;               // a process appends to it now
  bool foreign = false;               // no segment of this directory: removed when a store next opens it
};

struct DiskCacheReport {
  std::string directory;  // without links
  std::vector<DiskCacheSegment> segments;
  std::uint64_t file_bytes = 0, records = 0, data_bytes = 0, damaged_records = 0;  // of all segments
  std::uint64_t disk_free_bytes = 0;                                               // of the file system, for this user
  // Of the stores of this process that use the directory now; 0 where there are none.
  bool in_use = false;
  std::uint64_t most_bytes = 0;  // that the segments may have together
  std::uint64_t hits = 0, hit_bytes = 0, misses = 0;
  std::uint64_t added_records = 0, added_bytes = 0;
  std::uint64_t dropped_records = 0;  // not kept: no room, or the disk was too slow
  std::string problem;                // the first that kept something from being kept or served; "": none
};

// `verify`: reads all data and compares checksums; nothing is changed.
HEADRACE_API Result<DiskCacheReport> inspect_disk_cache(const std::string& directory, bool verify = false);

// Removes all segments, those that stores have open included: their reads go to the origin then. Gives the bytes freed.
HEADRACE_API Result<std::uint64_t> clear_disk_cache(const std::string& directory);

}  // namespace headrace
