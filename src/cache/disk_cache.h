// DiskCache: ranges of remote objects in the segment files of a directory: looks them up, reads them, and appends new
// ones in the background. One per directory and process; stores share it.
//
// It returns correct data or nothing: each read verifies the record's id, version and checksum, and any failure is a
// miss. Its own thread appends from copies whose memory is bounded; what the disk cannot take in time is dropped.
//
// Threads: every call from any thread.
// Owns:    its threads and descriptors. Destroyed with the last store, after pending copies are written.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/disk_cache.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/cache_options.h"
#include "cache/cache_task.h"
#include "cache/fetch_table.h"
#include "cache/local_range.h"
#include "cache/segment_table.h"

namespace headrace::cache {

class DiskCache {
 public:
  // This process's cache of the directory; created if there is none. If it is already open, the latest limits apply. A
  // forked child does not share its parent's.
  static Result<std::shared_ptr<DiskCache>> open(const CacheOptions& options);
  // Adds the activity of this process's cache of the directory, if it has one, to a report.
  static void add_activity(const CacheDirectory& directory, DiskCacheReport& report);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  const KeyedHash& hash() const noexcept { return hash_; }

  std::optional<RecordPlace> find(const CacheKey& id) const noexcept { return segments_.find(id); }
  // Reads the record into `out`, and its head. False: the record has another version or size (an empty `version`
  // matches any), or is damaged or missing; its entry is then dropped.
  bool read(const CacheKey& id, const RecordPlace& place, std::string_view version, std::uint64_t object_bytes,
            std::span<std::byte> out, RecordHead& head) noexcept;
  // A record of that version as a range of a file, if read() has verified it and the file is unchanged since. Never for
  // policy kRecent: recording the time of use changes the file.
  bool find_checked(const CacheKey& id, std::string_view version, std::uint64_t object_bytes, LocalRange& out) noexcept;
  // The record's version no longer exists.
  void forget(const CacheKey& id, const RecordPlace& place) noexcept { segments_.forget(id, place); }
  void count_miss() noexcept;
  void count_hit(std::uint64_t bytes) noexcept;

  // The ranges that this process's stores are fetching.
  FetchTable& fetches() noexcept { return fetches_; }
  // Whether a record of this size would be kept, as far as is known: it fits, or room can be made.
  bool takes(std::uint64_t data_bytes) const noexcept;
  struct Offered {
    std::shared_ptr<const FetchedRange> copy;  // null: none was made
    FetchTable::Reader* waiting = nullptr;     // reads that waited for the range
  };
  // Copies `data` for a later append, or drops it. `leads`: the caller leads the fetch of the range, which ends.
  Offered offer(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
                std::span<const std::byte> data, bool leads = false) noexcept;
  // Runs `task` on one of the cache's threads. It must stay in place until it has run.
  void submit(CacheTask& task) noexcept;
  // Waits until everything offered so far is written or dropped. For tests.
  void flush();

  static constexpr std::uint64_t kMaxCopiedBytes = std::uint64_t{64} << 20;  // limit for copies waiting to be written

 private:
  using Copy = std::shared_ptr<FetchedRange>;
  struct Active {
    os::OwnedDescriptor file;
    std::string name;
    std::uint32_t number = 0;
    std::uint64_t end = 0;
    std::vector<ListedRecord> list;
  };

  DiskCache(CacheDirectory directory, const CacheOptions& options);
  bool has_room(std::uint64_t data_bytes) const noexcept;
  bool is_disk_full() const noexcept;
  Status begin();
  void remove_foreign();
  void serve() noexcept;
  void write_all() noexcept;
  void write_batch(std::vector<Copy>& batch) noexcept;
  bool append(FetchedRange& copy);
  bool activate();
  bool adopt();
  void seal() noexcept;
  void leave_active(bool sealed) noexcept;
  bool make_room(std::uint64_t bytes);
  bool remove_segment(const CacheDirectory::NamedSegment& named);
  void update_listing() noexcept;
  std::uint64_t segment_bytes() const noexcept;
  std::uint64_t overhead_bytes() const noexcept;
  void note_problem(const std::string& what, int error) noexcept;
  std::uint64_t hash_of(std::string_view version, std::uint64_t object_bytes) const noexcept;
  Copy copy_of(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
               std::span<const std::byte> data);
  void drop(std::size_t count) noexcept { dropped_.fetch_add(count, std::memory_order_relaxed); }

  const CacheDirectory directory_;
  const KeyedHash hash_;
  SegmentTable segments_;
  FetchTable fetches_;
  std::atomic<std::uint64_t> most_bytes_;
  std::atomic<CachePolicy> policy_;
  std::atomic<std::uint64_t> room_{~std::uint64_t{0}};  // bytes left for records, as last seen
  std::atomic<std::uint64_t> hits_{0}, hit_bytes_{0}, misses_{0}, added_{0}, added_bytes_{0}, dropped_{0};
  std::atomic<std::uint64_t> no_writes_until_ns_{0};  // set when the disk is full
  std::atomic<bool> had_misses_{false};               // since the directory was last listed

  // Used by the writing thread only.
  Active active_;
  std::vector<CacheDirectory::NamedSegment> listed_;
  std::uint64_t used_bytes_ = 0;  // by all segments

  mutable std::mutex write_mutex_;
  std::condition_variable to_write_, written_;
  std::vector<Copy> waiting_, spare_;           // guarded by write_mutex_
  std::uint64_t copied_ = 0, spare_bytes_ = 0;  // guarded by write_mutex_
  bool writing_ = false, stopping_ = false;     // guarded by write_mutex_
  std::string problem_;                         // guarded by write_mutex_

  std::mutex task_mutex_;
  std::condition_variable task_added_;
  CacheTask *first_task_ = nullptr, *last_task_ = nullptr;  // guarded by task_mutex_
  bool serving_ = true;                                     // guarded by task_mutex_
  std::vector<std::thread> threads_;
};

}  // namespace headrace::cache
