// SegmentTable: this process's view of the segments of a cache directory: their records, which files appeared, grew or
// were removed, and descriptors for reading them.
//
// Threads: every call from any thread. One mutex, held for look-ups and while opening a local file, but not while
//          reading records.
// Owns:    at most 64 descriptors.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/record_index.h"
#include "cache/segment_format.h"
#include "os/file_handle.h"

namespace headrace::cache {

class SegmentTable {
 public:
  explicit SegmentTable(const CacheDirectory& directory) noexcept : directory_(directory) {}

  std::optional<RecordPlace> find(const CacheKey& id) const noexcept;
  // The record is invalid or no longer needed.
  void forget(const CacheKey& id, const RecordPlace& place) noexcept;
  std::size_t records() const noexcept;
  // Bytes of records forgotten or replaced since the last refresh().
  std::uint64_t newly_dead_bytes() const noexcept { return newly_dead_bytes_.load(std::memory_order_relaxed); }

  // Takes the current listing of the directory: scans segments that are new or have grown, and forgets those that are
  // gone. Throws std::bad_alloc.
  void refresh(std::span<const CacheDirectory::NamedSegment> listed);

  struct File {
    os::OwnedDescriptor descriptor;
    std::string path;
  };
  // The file of a segment; null if it can no longer be read, or `lacks`: for want of a descriptor or memory.
  std::shared_ptr<const File> file_of(std::uint32_t segment, bool& lacks) noexcept;
  // Records on the file, at intervals, that it was used.
  void touch(std::uint32_t segment, const File& file) noexcept;

  // The checksum of a record of that version was verified; `before`: the file's identity before the read.
  void note_checked(const CacheKey& id, const RecordPlace& place, std::uint64_t version,
                    const os::FileIdentity& before) noexcept;
  // The file of a record that is verified and whose file is unchanged since; otherwise null. `now`: the file's
  // identity.
  std::shared_ptr<const File> checked_file(const CacheKey& id, const RecordPlace& place, std::uint64_t version,
                                           os::FileIdentity& now) noexcept;

  // For a segment that this process appends to.
  std::uint32_t add_own(const std::string& name);  // throws std::bad_alloc
  void add_record(std::uint32_t segment, const ListedRecord& record) noexcept;
  void end_own(std::uint32_t segment, std::uint64_t end, bool sealed) noexcept;
  void remove(const std::string& name) noexcept;

  struct Known {
    std::uint32_t number = 0;
    std::uint64_t end = 0, live_bytes = 0;
    bool sealed = false, own = false, ours = false;
    // Most of its bytes are of records that were replaced or forgotten.
    bool is_dead(std::uint64_t file_bytes) const noexcept { return !own && 2 * live_bytes < file_bytes; }
  };
  std::optional<Known> known(const std::string& name) const noexcept;

 private:
  struct Segment {
    std::string name;
    Known about;
    bool removed = false;
    std::shared_ptr<const File> file;
    os::FileIdentity checked;  // the file's identity when its records were verified
    std::uint64_t used = 0, touched_ns = 0;
  };
  std::shared_ptr<const File> open(Segment& segment) noexcept;
  void scan(Segment& segment, std::uint64_t size) noexcept;
  void note(Segment& segment, const ListedRecord& record) noexcept;
  void end_record(const RecordPlace& place) noexcept;

  const CacheDirectory& directory_;
  std::atomic<std::uint64_t> newly_dead_bytes_{0};
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  RecordIndex index_;
  std::vector<std::unique_ptr<Segment>> segments_;  // by number, starting at 1
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::uint32_t> opened_;
  std::uint64_t uses_ = 0;
};

}  // namespace headrace::cache
