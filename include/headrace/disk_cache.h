// DiskCache reports: inspecting and clearing the directory in which remote stores cache what they read.
//
// A store has such a cache if the storage option `cache_dir` or HEADRACE_CACHE_DIR names a directory.
// docs/guide/remote.md explains the set-up, docs/design/cache.md what is cached and when it is served.
//
// Threads: every call from any thread, even while stores of this and other processes use the directory.
// Fails:   kNotFound: no such directory; kPermission: it belongs to another user, or others can write to it; kIo.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

// One file of the directory. Sizes are bytes.
struct DiskCacheSegment {
  std::string name;                   // file name in the directory
  std::uint64_t file_bytes = 0;       // size on the disk
  std::uint64_t records = 0;          // complete records, each a range of an object
  std::uint64_t data_bytes = 0;       // bytes of objects
  std::uint64_t damaged_records = 0;  // inspect_disk_cache() with `verify`: records with a wrong checksum
  std::uint64_t torn_bytes = 0;       // incomplete record at the end of a killed process; the next writer removes it
  bool sealed = false;                // full, and ends with an index of its records
  bool growing = false;               // a process is appending to it
  bool foreign = false;               // not a segment of this directory; removed when a store next opens it
};

struct DiskCacheReport {
  std::string directory;  // with symbolic links resolved
  std::vector<DiskCacheSegment> segments;
  std::uint64_t file_bytes = 0, records = 0, data_bytes = 0, damaged_records = 0;  // of all segments
  std::uint64_t disk_free_bytes = 0;                                               // free for this user
  // Of the stores in this process that use the directory; 0 if there are none.
  bool in_use = false;
  std::uint64_t most_bytes = 0;  // size limit of all segments together
  std::uint64_t hits = 0, hit_bytes = 0, misses = 0;
  std::uint64_t added_records = 0, added_bytes = 0;
  std::uint64_t dropped_records = 0;  // not cached: no room, or the disk was too slow
  std::string problem;                // the first thing that prevented caching or serving; "": none
};

// `verify`: also reads all data and compares checksums. Nothing is changed.
HEADRACE_API Result<DiskCacheReport> inspect_disk_cache(const std::string& directory, bool verify = false);

// Removes all segments, even those that stores have open: their reads then go to the origin. Returns the bytes freed.
HEADRACE_API Result<std::uint64_t> clear_disk_cache(const std::string& directory);

}  // namespace headrace
