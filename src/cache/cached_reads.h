// CachedReads: the reads of one store through a disk cache. See cached_ranges.h; used only by its implementation.
//
// A read that misses leads the fetch of its range, or waits for the read that does (FetchTable), whichever store of the
// process that belongs to.
#pragma once

#include <headrace/byte_store.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/document_name.h"
#include "base/forwarded_reads.h"
#include "cache/disk_cache.h"
#include "cache/object_versions.h"

namespace headrace::cache {

class CachedReads final : private RangeListener {
 public:
  CachedReads(std::shared_ptr<ByteStore> wrapped, std::shared_ptr<DiskCache> disk, std::string_view identity,
              const CacheOptions& options, std::shared_ptr<base::MemoryBudget> memory)
      : wrapped_(std::move(wrapped)),
        disk_(std::move(disk)),
        store_(disk_->hash().of(identity)),
        trust_(options.trust),
        max_age_ns_(options.max_age_ns),
        not_found_(Code::kNotFound, Layer::kStore, "no such object"),
        versions_(std::move(memory), options.max_age_ns) {}
  CachedReads(const CachedReads&) = delete;
  CachedReads& operator=(const CachedReads&) = delete;

  Status start(std::span<RangeRead* const> reads);
  void cancel(std::span<RangeRead* const> reads) noexcept;
  bool find_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                  LocalRange& out) noexcept;
  bool keeps_range(std::string_view key, std::uint64_t offset, std::uint64_t length) const noexcept {
    if (base::is_zarr_document(key)) return false;
    return disk_->takes(length) || disk_->find(disk_->hash().of(disk_->hash().of(store_, key), offset, length));
  }
  void forget(std::string_view key) noexcept {
    const CacheKey object = disk_->hash().of(store_, key);
    std::lock_guard lock(reads_.mutex());
    versions_.forget(object);
    disk_->fetches().close_object(object);
  }

 private:
  enum class Next : std::uint8_t {
    kDocument,  // read from the underlying store, and do not cache
    kOrigin,    // read from the underlying store
    kVersion,   // ask the underlying store for the current version; the disk has one
    kDisk,      // read from the disk
    kAbsent,    // the underlying store has said that the object does not exist
    kMemory,    // take the bytes that another read has fetched
    kChoose,    // on a thread of the cache: decide, and wait if another read is fetching the range
    kWaits,     // another read is fetching the range, and will resume this one
  };

  // A read from start() to done(). While it waits, it belongs to the read that resumes it.
  struct Job final : FetchTable::Reader, base::ForwardedRead {
    void run() noexcept override { reads->run(*this); }

    CachedReads* reads = nullptr;
    Next next = Next::kOrigin;
    CacheKey id;
    std::optional<RecordPlace> place;             // on the disk
    bool leads = false;                           // the fetch `led`
    CacheKey led;                                 // `id`, or the question for the object's version
    bool alone = false;                           // leads nothing and waits for nothing
    bool asked_version = false;                   // has asked for it, or waited for the answer
    bool off_disk = false;                        // the record on the disk was of no use
    bool vouched = false;                         // `fetched` is an answer to this store, since the read began
    std::shared_ptr<const FetchedRange> fetched;  // for Next::kMemory
    std::string expected;                         // the version that the bytes must have; empty: any
    std::uint64_t object_bytes = 0;
    std::byte first{};
  };

  void done(std::span<RangeRead* const> reads) noexcept override;
  void run(Job& job) noexcept;
  Next choose(Job& job, std::uint64_t now, bool may_wait);
  Next choose_asking(Job& job, std::uint64_t now, bool may_wait);
  Next take_turn(Job& job, const CacheKey& id, bool trusts, std::uint64_t now, bool may_wait) noexcept;
  void ask(Job& job) noexcept;
  void start_wrapped(Job& job) noexcept;
  void note_document(const Job& job);
  void told_version(Job& job) noexcept;
  void answered(Job& job) noexcept;
  bool read_disk(Job& job) noexcept;
  bool take(Job& job, std::string_view version, std::uint64_t object_bytes, std::span<const std::byte> data) noexcept;
  bool accepts(Job& job, std::string_view version, std::uint64_t object_bytes) noexcept;
  void hand_over(const DiskCache::Offered& offered, std::string_view version, std::uint64_t object_bytes,
                 std::span<const std::byte> data) noexcept;
  void resume(FetchTable::Reader* waiting, bool alone) noexcept;
  void pass_on(Job& job) noexcept;
  void send_away(Job& job, bool absent) noexcept;
  void end_failed(Job& job, const Status& status) noexcept;
  void end_cancelled(Job& job) noexcept;
  void forget_all() noexcept;
  void finish(Job& job) noexcept;

  const std::shared_ptr<ByteStore> wrapped_;
  const std::shared_ptr<DiskCache> disk_;
  const CacheKey store_;
  const CacheTrust trust_;
  const std::uint64_t max_age_ns_;
  const Status not_found_;
  // Guarded by reads_.mutex():
  ObjectVersions versions_;
  bool has_answered_ = false;  // the underlying store, since this object was created
  bool has_versions_ = true;   // its last answer; without versions, each read must see the present bytes

  base::ForwardedReads<Job> reads_{*this};  // last: its destructor waits for calls that use the others
};

}  // namespace headrace::cache
