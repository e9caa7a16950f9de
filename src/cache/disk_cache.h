// DiskCache: ranges of remote objects in the segments of a directory: looked up, read, and appended behind everybody's
// back. One for each directory and process; stores share it.
//
// What it gives is right or nothing: the id, the version and the checksum of a record are compared at each read. What
// fails is a miss. Appending is done by a thread of its own from copies, which are bounded: what the disk cannot take
// in time is dropped.
//
// Threads: every call from any thread.
// Owns:    its threads and descriptors; ends when its last store does, once what it has taken is written.
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
#include "cache/local_range.h"
#include "cache/segment_table.h"

namespace headrace::cache {

// Something that may wait for a disk or a network: run on a thread of the cache.
class CacheTask {
 public:
  virtual void run() noexcept = 0;

  CacheTask* next_task = nullptr;  // the DiskCache's own

 protected:
  ~CacheTask() = default;
};

class DiskCache {
 public:
  // That of the directory in this process; made where there is none. Where it is open already, the limits given last
  // count. In a forked child it is not the parent's.
  static Result<std::shared_ptr<DiskCache>> open(const CacheOptions& options);
  // Adds to a report what the process's own has done, where it has one.
  static void add_activity(const CacheDirectory& directory, DiskCacheReport& report);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  const KeyedHash& hash() const noexcept { return hash_; }

  std::optional<RecordPlace> find(const CacheKey& id) const noexcept { return segments_.find(id); }
  // The record into `out`, and its head. False: it is not of that version and size (`version` empty: any is right), or
  // it is damaged or gone; then it is forgotten.
  bool read(const CacheKey& id, const RecordPlace& place, std::string_view version, std::uint64_t object_bytes,
            std::span<std::byte> out, RecordHead& head) noexcept;
  // A record of that version as a range of a file, where read() has checked it and the file has not been changed since.
  // A segment whose time of use is noted on the file changes all the time: none then.
  bool find_checked(const CacheKey& id, std::string_view version, std::uint64_t object_bytes, LocalRange& out) noexcept;
  // It is of a version that there is no more.
  void forget(const CacheKey& id, const RecordPlace& place) noexcept { segments_.forget(id, place); }
  void count_miss() noexcept;

  // Whether so many bytes would be kept, as far as is known: there is room, or it is made.
  bool takes(std::uint64_t data_bytes) const noexcept;
  // Copies `data`, to be appended later, or drops it.
  void offer(const CacheKey& id, std::string_view version, std::uint64_t object_bytes,
             std::span<const std::byte> data) noexcept;
  // Runs it on one of its threads. The task stays until it is run.
  void submit(CacheTask& task) noexcept;
  // Until all that was offered so far is written or dropped. For tests.
  void flush();

  static constexpr std::uint64_t kMostCopiedBytes = std::uint64_t{64} << 20;  // waiting to be written

 private:
  struct Copy {
    CacheKey id;
    std::uint64_t object_bytes = 0;
    std::string version;
    std::unique_ptr<std::byte[]> memory;  // room for the record's head, the data, and what fills it up
    std::size_t capacity = 0, data_bytes = 0;
  };
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
  bool append(Copy& copy);
  bool activate();
  bool adopt();
  void seal() noexcept;
  void leave_active(bool sealed) noexcept;
  bool make_room(std::uint64_t bytes);
  bool remove_segment(const CacheDirectory::NamedSegment& named);
  void look_again() noexcept;
  std::uint64_t segment_bytes() const noexcept;
  std::uint64_t beside_record_bytes() const noexcept;
  void note_problem(const std::string& what, int error) noexcept;
  std::uint64_t hash_of(std::string_view version, std::uint64_t object_bytes) const noexcept;
  void count_hit(std::uint64_t bytes) noexcept;
  void drop(std::size_t count) noexcept { dropped_.fetch_add(count, std::memory_order_relaxed); }

  const CacheDirectory directory_;
  const KeyedHash hash_;
  SegmentTable segments_;
  std::atomic<std::uint64_t> most_bytes_;
  std::atomic<CachePolicy> policy_;
  std::atomic<std::uint64_t> room_{~std::uint64_t{0}};  // for records, as it was seen last
  std::atomic<std::uint64_t> hits_{0}, hit_bytes_{0}, misses_{0}, added_{0}, added_bytes_{0}, dropped_{0};
  std::atomic<std::uint64_t> no_writes_until_ns_{0};  // the disk is full
  std::atomic<bool> missed_{false};                   // since the directory was looked at last

  // The writing thread's.
  Active active_;
  std::vector<CacheDirectory::NamedSegment> listed_;
  std::uint64_t used_bytes_ = 0;  // of all segments

  mutable std::mutex write_mutex_;
  std::condition_variable to_write_, written_;
  std::vector<Copy> waiting_, spare_;           // guarded by write_mutex_
  std::uint64_t copied_ = 0, spare_bytes_ = 0;  // guarded by write_mutex_
  bool writing_ = false, stopping_ = false;     // guarded by write_mutex_
  std::string problem_;                         // guarded by write_mutex_

  std::mutex task_mutex_;
  std::condition_variable tasks_came_;
  CacheTask *first_task_ = nullptr, *last_task_ = nullptr;  // guarded by task_mutex_
  bool serving_ = true;                                     // guarded by task_mutex_
  std::vector<std::thread> threads_;
};

}  // namespace headrace::cache
