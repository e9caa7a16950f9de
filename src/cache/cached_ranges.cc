#include "cache/cached_ranges.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/document_name.h"
#include "base/fork.h"
#include "cache/disk_cache.h"
#include "cache/object_versions.h"

namespace headrace::cache {
namespace {

constexpr std::uint64_t kFromEnd = ~std::uint64_t{0};  // stands for a range from the end; not a valid offset

Status say(Code code, const char* what) noexcept {
  try {
    return Status(code, Layer::kStore, what);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

// Whether a successful response is plausible enough to be cached.
bool is_consistent(const RangeRead& asked, const RangeRead& answer) noexcept {
  if (!answer.status.ok() || answer.bytes > asked.out.size() || answer.object_bytes == RangeRead::kUnknown ||
      answer.found_version.empty() || (!asked.version.empty() && answer.found_version != asked.version)) {
    return false;
  }
  const std::uint64_t from = asked.from_end ? 0 : std::min(asked.offset, answer.object_bytes);
  return answer.bytes == std::min<std::uint64_t>(answer.object_bytes - from, asked.out.size());
}

class CachedRanges final : private RangeListener {
 public:
  CachedRanges(std::shared_ptr<ByteStore> wrapped, std::shared_ptr<DiskCache> disk, std::string_view identity,
               const CacheOptions& options, std::shared_ptr<base::MemoryBudget> memory)
      : wrapped_(std::move(wrapped)),
        disk_(std::move(disk)),
        store_(disk_->hash().of(identity)),
        trust_(options.trust),
        versions_(std::move(memory), options.max_age_ns),
        not_found_(Code::kNotFound, Layer::kStore, "no such object") {}
  CachedRanges(const CachedRanges&) = delete;
  CachedRanges& operator=(const CachedRanges&) = delete;
  // A cache thread may still be returning from the last read's start_wrapped().
  ~CachedRanges() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return calls_ == 0; });
  }

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
    std::lock_guard lock(mutex_);
    versions_.forget(object);
  }

 private:
  enum class Next : std::uint8_t {
    kDocument,  // read from the underlying store, and do not cache
    kOrigin,    // read from the underlying store
    kVersion,   // ask the underlying store for the current version; the disk has one
    kDisk,      // read from the disk
    kAbsent,    // the underlying store has said that the object does not exist
  };

  // A read from start() to done(). In `active_` all that time.
  struct Job final : CacheTask {
    explicit Job(CachedRanges& its_owner) noexcept : owner(its_owner) {}
    void run() noexcept override { owner.run(*this); }

    CachedRanges& owner;
    RangeRead inner;  // the request to the underlying store; its `user` is this job
    RangeRead* outer = nullptr;
    Next next = Next::kOrigin;
    CacheKey object, id;
    RecordPlace place;
    std::string version;  // the version that the record must have; empty: any
    std::uint64_t object_bytes = 0;
    std::byte first{};
    // Guarded by mutex_:
    std::size_t active_at = 0;
    std::uint64_t serial = 0;  // identifies this use of the job
    bool cancelled = false, forwarded = false;
  };

  void done(std::span<RangeRead* const> reads) noexcept override;
  void run(Job& job) noexcept;
  Job* take_job();
  void choose(Job& job, std::uint64_t now);
  void ask(Job& job) noexcept;
  Status read_wrapped(std::span<RangeRead* const> reads) noexcept;
  void start_wrapped(Job& job) noexcept;
  void note_document(const Job& job);
  void told_version(Job& job) noexcept;
  void answered(Job& job) noexcept;
  bool read_disk(Job& job) noexcept;
  void finish(Job& job) noexcept;
  void recycle(Job& job) noexcept;  // REQUIRES: mutex_ is held
  void cancel_wrapped(std::span<RangeRead* const> reads) noexcept;

  const std::shared_ptr<ByteStore> wrapped_;
  const std::shared_ptr<DiskCache> disk_;
  const CacheKey store_;
  const CacheTrust trust_;
  std::mutex mutex_;
  std::condition_variable returned_;
  // Guarded by mutex_:
  ObjectVersions versions_;
  bool has_answered_ = false;  // the underlying store, since this object was created
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Job*> active_, free_;
  std::vector<Job*> resting_;  // ended while cancel() may still name them to the underlying store: not reused yet
  std::uint64_t serials_ = 0;
  std::size_t calls_ = 0, cancels_ = 0;

  const Status not_found_;
};

// Reserves room in every list, so that no list grows where failure is not allowed.
CachedRanges::Job* CachedRanges::take_job() {
  if (free_.empty()) {
    const std::size_t count = 2 * jobs_.size() + 16;
    if (jobs_.size() == jobs_.capacity()) jobs_.reserve(count);
    active_.reserve(jobs_.capacity());
    free_.reserve(jobs_.capacity());
    resting_.reserve(jobs_.capacity());
    jobs_.push_back(std::make_unique<Job>(*this));
    free_.push_back(jobs_.back().get());
  }
  Job* const job = free_.back();
  free_.pop_back();
  job->active_at = active_.size();
  job->serial = ++serials_;
  job->cancelled = job->forwarded = false;
  active_.push_back(job);
  return job;
}

void CachedRanges::recycle(Job& job) noexcept {
  active_.back()->active_at = job.active_at;
  active_[job.active_at] = active_.back();
  active_.pop_back();
  job.outer = nullptr;
  (cancels_ != 0 ? resting_ : free_).push_back(&job);
}

void CachedRanges::finish(Job& job) noexcept {
  RangeRead* const read = job.outer;
  {
    std::lock_guard lock(mutex_);
    recycle(job);
  }
  read->listener->done({&read, 1});
}

// REQUIRES: mutex_ is held.
void CachedRanges::choose(Job& job, std::uint64_t now) {
  const RangeRead& read = *job.outer;
  job.version.clear();
  if (base::is_zarr_document(read.key) || read.out.empty()) {
    job.next = Next::kDocument;
    return;
  }
  job.next = Next::kOrigin;
  const ObjectVersion* const told = versions_.find(job.object, now);
  if (told != nullptr && told->text.empty()) {
    if (read.version.empty()) job.next = Next::kAbsent;
    return;
  }
  // A reader of another version than the current one gets its error from the underlying store.
  if (told != nullptr && !read.version.empty() && read.version != told->text) return;
  const auto place = disk_->find(job.id);
  if (!place) return;
  job.place = *place;
  if (told != nullptr) {
    if (place->tag != version_tag(told->text, told->object_bytes)) return disk_->forget(job.id, *place);
    job.version = told->text;
    job.object_bytes = told->object_bytes;
    job.next = Next::kDisk;
  } else {
    job.next = trust_ == CacheTrust::kStore && has_answered_ ? Next::kDisk : Next::kVersion;
  }
}

// As choose(), for the case that leads to Next::kDisk with a known version.
bool CachedRanges::find_local(std::string_view key, std::string_view version, std::uint64_t offset,
                              std::uint64_t length, LocalRange& out) noexcept {
  if (base::is_zarr_document(key)) return false;
  const CacheKey object = disk_->hash().of(store_, key);
  const CacheKey id = disk_->hash().of(object, offset, length);
  const std::uint64_t now = base::now_ns();
  std::lock_guard lock(mutex_);
  const ObjectVersion* const told = versions_.find(object, now);
  if (told == nullptr || told->text.empty() || (!version.empty() && version != told->text)) return false;
  return disk_->find_checked(id, told->text, told->object_bytes, out);
}

// Fills in the request to the underlying store.
void CachedRanges::ask(Job& job) noexcept {
  const RangeRead& read = *job.outer;
  RangeRead& inner = job.inner;
  const bool version_only = job.next == Next::kVersion;
  inner.key = read.key;
  inner.offset = version_only ? 0 : read.offset;
  inner.from_end = !version_only && read.from_end;
  inner.out = version_only ? std::span(&job.first, 1) : read.out;
  inner.version = version_only ? std::string_view() : read.version;
  inner.listener = this;
  inner.user = reinterpret_cast<std::uint64_t>(&job);
  inner.status = {};
  inner.bytes = 0;
  inner.object_bytes = RangeRead::kUnknown;
  inner.found_version.clear();
}

Status CachedRanges::start(std::span<RangeRead* const> reads) {
  std::vector<Job*> jobs;
  std::vector<RangeRead*> forwarded;
  Status status;
  std::size_t own = 0;
  try {
    jobs.reserve(reads.size());
    forwarded.reserve(reads.size());
    const std::uint64_t now = base::now_ns();
    std::lock_guard lock(mutex_);
    for (RangeRead* const read : reads) {
      Job* const job = take_job();
      jobs.push_back(job);
      job->outer = read;
      job->object = disk_->hash().of(store_, read->key);
      job->id = disk_->hash().of(job->object, read->from_end ? kFromEnd : read->offset, read->out.size());
      choose(*job, now);
      if (job->next == Next::kDisk || job->next == Next::kAbsent) continue;
      ask(*job);
      job->forwarded = true;
      forwarded.push_back(&job->inner);
    }
    // Jobs for the disk come first in `jobs`. Once the underlying store is called, its listener may end the others at
    // any time.
    own = static_cast<std::size_t>(
        std::partition(jobs.begin(), jobs.end(), [](const Job* job) { return !job->forwarded; }) - jobs.begin());
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  if (status.ok() && !forwarded.empty()) status = read_wrapped(forwarded);
  if (!status.ok()) {
    std::lock_guard lock(mutex_);
    for (Job* const job : jobs) recycle(*job);
    return status;
  }
  for (Job* const job : std::span(jobs).first(own)) disk_->submit(*job);
  return {};
}

void CachedRanges::cancel(std::span<RangeRead* const> reads) noexcept {
  std::vector<RangeRead*> forwarded;
  {
    std::lock_guard lock(mutex_);
    bool noted = true;
    try {
      forwarded.reserve(active_.size());
    } catch (const std::bad_alloc&) {
      noted = false;  // the reads complete by themselves
    }
    for (Job* const job : active_) {
      if (std::find(reads.begin(), reads.end(), job->outer) == reads.end()) continue;
      job->cancelled = true;
      if (noted && job->forwarded) forwarded.push_back(&job->inner);
    }
    if (forwarded.empty()) return;
    ++cancels_;
  }
  cancel_wrapped(forwarded);
}

// REQUIRES: the caller has incremented cancels_, so that none of the jobs is reused meanwhile.
void CachedRanges::cancel_wrapped(std::span<RangeRead* const> reads) noexcept {
  wrapped_->cancel(reads);
  std::lock_guard lock(mutex_);
  if (--cancels_ != 0) return;
  free_.insert(free_.end(), resting_.begin(), resting_.end());
  resting_.clear();
}

// On a thread of the cache.
void CachedRanges::run(Job& job) noexcept {
  bool cancelled = false;
  {
    std::lock_guard lock(mutex_);
    cancelled = job.cancelled;
  }
  RangeRead& read = *job.outer;
  if (cancelled) {
    read.status = say(Code::kCancelled, "the read was cancelled");
    return finish(job);
  }
  if (job.next == Next::kAbsent) {
    read.status = not_found_;
    read.cache = RangeCache::kHit;
    return finish(job);
  }
  if (job.next == Next::kDisk && read_disk(job)) return finish(job);
  job.next = Next::kOrigin;
  start_wrapped(job);
}

bool CachedRanges::read_disk(Job& job) noexcept {
  RangeRead& read = *job.outer;
  RecordHead head;
  if (!disk_->read(job.id, job.place, job.version, job.object_bytes, read.out, head)) return false;
  try {
    if (job.version.empty()) {
      // An older version that CacheTrust accepts. It becomes the object's version from here on, so that versions are
      // never mixed.
      if (!read.version.empty() && read.version != head.version_text()) return false;
      const std::uint64_t now = base::now_ns();
      std::lock_guard lock(mutex_);
      const ObjectVersion* const told = versions_.find(job.object, now);
      if (told == nullptr) {
        versions_.note(job.object, head.version_text(), head.object_bytes, now);
      } else if (told->text != head.version_text() || told->object_bytes != head.object_bytes) {
        return false;
      }
    }
    read.found_version.assign(head.version_text());
  } catch (const std::bad_alloc&) {
    return false;
  }
  read.status = {};
  read.bytes = head.data_bytes;
  read.object_bytes = head.object_bytes;
  read.cache = RangeCache::kHit;
  return true;
}

Status CachedRanges::read_wrapped(std::span<RangeRead* const> reads) noexcept {
  try {
    return wrapped_->start(reads);
  } catch (...) {
    return say(Code::kIo, "the store threw an exception");
  }
}

void CachedRanges::start_wrapped(Job& job) noexcept {
  std::uint64_t serial = 0;
  {
    std::lock_guard lock(mutex_);
    ask(job);
    job.forwarded = true;
    serial = job.serial;
    ++calls_;
  }
  RangeRead* const one[] = {&job.inner};
  Status status = read_wrapped(one);
  if (!status.ok()) {
    job.outer->status = std::move(status);
    finish(job);
  } else {
    // Cancelled before the underlying store had the request.
    bool again = false;
    {
      std::lock_guard lock(mutex_);
      again = job.serial == serial && job.outer != nullptr && job.cancelled;
      if (again) ++cancels_;
    }
    if (again) cancel_wrapped(one);
  }
  std::lock_guard lock(mutex_);
  if (--calls_ == 0) returned_.notify_all();
}

void CachedRanges::done(std::span<RangeRead* const> reads) noexcept {
  for (RangeRead* const read : reads) {
    Job& job = *reinterpret_cast<Job*>(read->user);  // NOLINT(performance-no-int-to-ptr): stored by ask()
    if (job.next == Next::kVersion) {
      told_version(job);
    } else {
      answered(job);
    }
  }
}

// The underlying store has returned the first byte, and with it the version.
void CachedRanges::told_version(Job& job) noexcept {
  const RangeRead& inner = job.inner;
  RangeRead& read = *job.outer;
  const bool absent = inner.status.code() == Code::kNotFound;
  if (!inner.status.ok() && !absent) {
    read.status = inner.status;
    return finish(job);
  }
  {
    std::lock_guard lock(mutex_);
    has_answered_ = true;
    job.forwarded = false;
    job.next = Next::kOrigin;
    try {
      if (!absent && !inner.found_version.empty() && inner.object_bytes != RangeRead::kUnknown) {
        versions_.note(job.object, inner.found_version, inner.object_bytes, base::now_ns());
        const bool other = job.place.tag != version_tag(inner.found_version, inner.object_bytes);
        if (other) {
          disk_->forget(job.id, job.place);
        } else if (read.version.empty() || read.version == inner.found_version) {
          job.version = inner.found_version;
          job.object_bytes = inner.object_bytes;
          job.next = Next::kDisk;
        }
      } else {
        versions_.forget(job.object);
      }
    } catch (const std::bad_alloc&) {
      job.next = Next::kOrigin;
    }
  }
  disk_->submit(job);
}

// A changed array, such as one that has grown, has other chunks: everything known about objects is discarded. REQUIRES:
// mutex_ is held.
void CachedRanges::note_document(const Job& job) {
  const ObjectVersion* const told = versions_.find(job.object, 0);
  const std::string& version = job.inner.found_version;
  if (version.empty() || (told != nullptr && told->text != version)) versions_.clear();
  if (!version.empty()) versions_.note(job.object, version, job.inner.object_bytes, base::now_ns());
}

void CachedRanges::answered(Job& job) noexcept {
  RangeRead& inner = job.inner;
  RangeRead& read = *job.outer;
  const bool kept = job.next == Next::kOrigin, good = is_consistent(read, inner);
  {
    std::lock_guard lock(mutex_);
    if (inner.status.ok() || inner.status.code() == Code::kNotFound) has_answered_ = true;
    try {
      if (!kept && inner.status.ok() && base::is_zarr_document(read.key)) note_document(job);
    } catch (const std::bad_alloc&) {
      versions_.clear();
    }
    if (kept) {
      try {
        if (good) {
          versions_.note(job.object, inner.found_version, inner.object_bytes, base::now_ns());
        } else if (inner.status.code() == Code::kNotFound && read.version.empty()) {
          versions_.note(job.object, {}, 0, base::now_ns());
        } else if (inner.status.ok() || inner.status.code() == Code::kAgainExhausted) {
          versions_.forget(job.object);
        }
      } catch (const std::bad_alloc&) {
        versions_.forget(job.object);
      }
    }
  }
  if (kept) {
    disk_->count_miss();
    // Before done(), after which the reader may reuse the memory.
    if (good) disk_->offer(job.id, inner.found_version, inner.object_bytes, read.out.first(inner.bytes));
  }
  read.cache = kept ? RangeCache::kMiss : RangeCache::kNone;
  read.bytes = inner.bytes;
  read.object_bytes = inner.object_bytes;
  read.found_version.swap(inner.found_version);
  read.status = std::move(inner.status);
  finish(job);
}

class CachedStore final : public ByteStore, public LocalRanges {
 public:
  CachedStore(std::shared_ptr<ByteStore> wrapped, std::shared_ptr<DiskCache> disk, std::string_view identity,
              const CacheOptions& options, std::shared_ptr<base::MemoryBudget> memory)
      : wrapped_(wrapped), ranges_(std::move(wrapped), std::move(disk), identity, options, std::move(memory)) {}

  std::string url() const override { return wrapped_->url(); }
  Status start(std::span<RangeRead* const> reads) override {
    if (!ranges_.inherited()) return ranges_->start(reads);
    return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
  }
  void cancel(std::span<RangeRead* const> reads) noexcept override {
    if (!ranges_.inherited()) ranges_->cancel(reads);
  }
  bool find_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                  LocalRange& out) noexcept override {
    return !ranges_.inherited() && ranges_->find_local(key, version, offset, length, out);
  }
  bool keeps_range(std::string_view key, std::uint64_t offset, std::uint64_t length) const noexcept override {
    return !ranges_.inherited() && ranges_->keeps_range(key, offset, length);
  }
  Result<std::vector<ListedName>> list(std::string_view prefix) override { return wrapped_->list(prefix); }
  Status put(std::string_view key, std::span<const std::byte> bytes) override {
    Status status = wrapped_->put(key, bytes);
    if (!ranges_.inherited()) ranges_->forget(key);
    return status;
  }

 private:
  const std::shared_ptr<ByteStore> wrapped_;
  base::ProcessOwn<CachedRanges> ranges_;
};

}  // namespace

Result<std::shared_ptr<ByteStore>> make_cached_ranges(std::shared_ptr<ByteStore> wrapped, std::string_view identity,
                                                      const CacheOptions& options,
                                                      std::shared_ptr<base::MemoryBudget> memory) {
  try {
    HEADRACE_TRY_ASSIGN(auto disk, DiskCache::open(options));
    return std::shared_ptr<ByteStore>(
        std::make_shared<CachedStore>(std::move(wrapped), std::move(disk), identity, options, std::move(memory)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::cache
