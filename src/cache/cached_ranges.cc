#include "cache/cached_ranges.h"

#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "cache/cached_reads.h"

namespace headrace::cache {
namespace {

constexpr std::uint64_t kFromEnd = ~std::uint64_t{0};  // stands for a range from the end; not a valid offset

}  // namespace

void CachedReads::finish(Job& job) noexcept {
  job.fetched.reset();
  reads_.finish(job);
}

// What the read does next. `may_wait`: whether it may be put to wait for another one; kWaits then means that this has
// happened, and the job may be resumed at any time. REQUIRES: reads_.mutex() is held.
CachedReads::Next CachedReads::choose(Job& job, std::uint64_t now, bool may_wait) {
  const RangeRead& read = *job.outer;
  job.expected.clear();
  job.fetched.reset();
  job.vouched = false;
  if (base::is_zarr_document(read.key) || read.out.empty()) return Next::kDocument;
  const ObjectVersion* const told = versions_.find(job.object, now);
  if (told != nullptr && told->text.empty()) return read.version.empty() ? Next::kAbsent : Next::kOrigin;
  // A reader of another version than the current one gets its error from the underlying store.
  if (told != nullptr && !read.version.empty() && read.version != told->text) return Next::kOrigin;
  const bool trusts = told != nullptr || (trust_ == CacheTrust::kStore && has_answered_);
  const auto find = [&] {
    job.place = job.off_disk ? std::nullopt : disk_->find(job.id);
    if (!job.place || told == nullptr || job.place->tag == version_tag(told->text, told->object_bytes)) return;
    disk_->forget(job.id, *job.place);
    job.place.reset();
  };
  Next next = Next::kDisk;
  find();
  if (!job.place) {
    next = take_turn(job, job.id, trusts, now, may_wait);
    if (next == Next::kWaits) return next;  // the job is its leader's
    // The previous fetch may have ended, with a record on the disk, after find().
    if (job.leads) find();
    if (job.leads && job.place) {
      job.leads = false;
      resume(disk_->fetches().end(job.id), false);
      next = Next::kDisk;
    }
  }
  if (next == Next::kVersion || (!trusts && (next == Next::kDisk || next == Next::kMemory))) {
    return choose_asking(job, now, may_wait);
  }
  if (told != nullptr && (next == Next::kDisk || next == Next::kMemory)) {
    job.expected = told->text;
    job.object_bytes = told->object_bytes;
  }
  return next;
}

// The bytes are at hand, or another store's read is fetching them, but which version this store may read is unknown.
// REQUIRES: reads_.mutex() is held.
CachedReads::Next CachedReads::choose_asking(Job& job, std::uint64_t now, bool may_wait) {
  job.fetched.reset();
  if (job.asked_version) return Next::kOrigin;
  const KeyedHash& hash = disk_->hash();
  const CacheKey question = hash.of(hash.of(job.object, kFromEnd, 0), reinterpret_cast<std::uintptr_t>(this), 0);
  const Next next = take_turn(job, question, false, now, may_wait);
  return next == Next::kChoose || next == Next::kWaits ? next : Next::kVersion;
}

// kOrigin: the read makes the request, and leads the fetch if job.leads. kVersion: another store's read does; ask for
// the version. REQUIRES: reads_.mutex() is held.
CachedReads::Next CachedReads::take_turn(Job& job, const CacheKey& id, bool trusts, std::uint64_t now,
                                         bool may_wait) noexcept {
  if (job.alone || !has_versions_) return Next::kOrigin;
  FetchTable& fetches = disk_->fetches();
  const std::uint64_t since = max_age_ns_ != 0 && now > max_age_ns_ ? now - max_age_ns_ : 0;
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    switch (fetches.begin(id, job, trusts, now, since, job.fetched)) {
      case FetchTable::Turn::kLeads:
        job.leads = true;
        job.led = id;
        return Next::kOrigin;
      case FetchTable::Turn::kFetched:
        return Next::kMemory;
      case FetchTable::Turn::kUnknown:
        return Next::kVersion;
      case FetchTable::Turn::kAlone:
        return Next::kOrigin;
      case FetchTable::Turn::kBusy:
        if (!may_wait) return Next::kChoose;
        if (fetches.wait(id, job, trusts, since)) return Next::kWaits;
        break;  // it has just ended
    }
  }
  return Next::kOrigin;
}

// As choose(), for the case that leads to Next::kDisk with a known version.
bool CachedReads::find_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                             LocalRange& out) noexcept {
  if (base::is_zarr_document(key)) return false;
  const CacheKey object = disk_->hash().of(store_, key);
  const CacheKey id = disk_->hash().of(object, offset, length);
  const std::uint64_t now = base::now_ns();
  std::lock_guard lock(reads_.mutex());
  const ObjectVersion* const told = versions_.find(object, now);
  if (told == nullptr || told->text.empty() || (!version.empty() && version != told->text)) return false;
  return disk_->find_checked(id, told->text, told->object_bytes, out);
}

// Fills in the request to the underlying store.
void CachedReads::ask(Job& job) noexcept {
  const RangeRead& read = *job.outer;
  RangeRead& inner = job.inner;
  const bool version_only = job.next == Next::kVersion;
  inner.key = read.key;
  inner.offset = version_only ? 0 : read.offset;
  inner.from_end = !version_only && read.from_end;
  inner.out = version_only ? std::span(&job.first, 1) : read.out;
  inner.version = version_only ? std::string_view() : read.version;
}

Status CachedReads::start(std::span<RangeRead* const> reads) {
  std::vector<Job*> jobs;
  std::vector<RangeRead*> asking;
  Status failure;
  std::size_t own = 0;
  const auto asks = [](const Job* job) {
    return job->next == Next::kDocument || job->next == Next::kOrigin || job->next == Next::kVersion;
  };
  try {
    asking.reserve(reads.size());
    jobs = reads_.take(reads);
    const std::uint64_t now = base::now_ns();
    std::lock_guard lock(reads_.mutex());
    for (Job* const job : jobs) {
      const RangeRead& read = *job->outer;
      job->owner = job->reads = this;
      job->inner_store = wrapped_.get();
      job->store = store_;
      job->object = disk_->hash().of(store_, read.key);
      job->version = read.version;
      job->id = disk_->hash().of(job->object, read.from_end ? kFromEnd : read.offset, read.out.size());
      job->leads = job->alone = job->asked_version = job->off_disk = false;
      job->next = choose(*job, now, false);
      if (!asks(job)) continue;
      ask(*job);
      asking.push_back(&job->inner);
    }
    // Jobs for the cache's threads come first in `jobs`. Once the underlying store is called, its listener may end the
    // others at any time.
    own = static_cast<std::size_t>(std::partition(jobs.begin(), jobs.end(), std::not_fn(asks)) - jobs.begin());
  } catch (const std::bad_alloc&) {
    failure = Status::out_of_memory();
  }
  if (failure.ok() && !asking.empty()) reads_.send(asking, failure);
  if (!failure.ok()) {
    for (Job* const job : jobs) pass_on(*job);
    reads_.drop(jobs);
    return failure;
  }
  for (Job* const job : std::span(jobs).first(own)) disk_->submit(*job);
  return {};
}

void CachedReads::cancel(std::span<RangeRead* const> reads) noexcept {
  FetchTable::Reader* left = nullptr;
  reads_.cancel(reads, [&](Job& job) {
    if (!disk_->fetches().leave(job)) return;
    job.next_reader = left;
    left = &job;
  });
  while (left != nullptr) {
    Job& job = static_cast<Job&>(*left);
    left = left->next_reader;
    end_cancelled(job);
  }
}

namespace {

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
  base::ProcessOwn<CachedReads> ranges_;
};

}  // namespace

Result<std::shared_ptr<ByteStore>> make_cached_ranges(std::shared_ptr<ByteStore> wrapped, std::string_view identity,
                                                      const CacheOptions& options,
                                                      std::shared_ptr<base::MemoryBudget> memory) {
  try {
    auto opened = DiskCache::open(options);
    // A directory that somebody has just removed. kNotFound would mean a missing object of the store.
    if (opened.status().code() == Code::kNotFound) {
      return Status(Code::kIo, Layer::kStore, std::string(opened.status().message()))
          .with_cause(std::string(opened.status().cause()));
    }
    HEADRACE_TRY_ASSIGN(auto disk, std::move(opened));
    return std::shared_ptr<ByteStore>(
        std::make_shared<CachedStore>(std::move(wrapped), std::move(disk), identity, options, std::move(memory)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::cache
