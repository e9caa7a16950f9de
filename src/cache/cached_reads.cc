#include "cache/cached_reads.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"

namespace headrace::cache {
namespace {

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

}  // namespace

void CachedReads::end_cancelled(Job& job) noexcept {
  job.outer->status = say(Code::kCancelled, "the read was cancelled");
  finish(job);
}

// On a thread of the cache.
void CachedReads::run(Job& job) noexcept {
  for (;;) {
    bool cancelled = false;
    Next next = Next::kOrigin;
    {
      std::lock_guard lock(reads_.mutex());
      cancelled = job.cancelled;
      next = job.next;
      if (!cancelled && next == Next::kChoose) {
        try {
          next = choose(job, base::now_ns(), true);
        } catch (const std::bad_alloc&) {
          next = Next::kOrigin;
        }
        if (next == Next::kWaits) return;  // from here on, the job is its leader's
        job.next = next;
      }
    }
    if (cancelled) {
      pass_on(job);
      return end_cancelled(job);
    }
    switch (next) {
      case Next::kAbsent:
        job.outer->status = not_found_;
        job.outer->cache = RangeCache::kHit;
        return finish(job);
      case Next::kDisk:
        if (read_disk(job)) return finish(job);
        job.off_disk = true;
        break;
      case Next::kMemory: {
        const FetchedRange& range = *job.fetched;
        if (take(job, range.version, range.object_bytes, range.data())) return finish(job);
        job.alone = true;
        break;
      }
      default:
        return start_wrapped(job);
    }
    job.next = Next::kChoose;
  }
}

bool CachedReads::read_disk(Job& job) noexcept {
  RangeRead& read = *job.outer;
  RecordHead head;
  if (!disk_->read(job.id, *job.place, job.expected, job.object_bytes, read.out, head)) return false;
  if (!accepts(job, head.version_text(), head.object_bytes)) return false;
  read.status = {};
  read.bytes = head.data_bytes;
  read.object_bytes = head.object_bytes;
  read.cache = RangeCache::kHit;
  return true;
}

// The bytes that another read has fetched. False: they are not for this read.
bool CachedReads::take(Job& job, std::string_view version, std::uint64_t object_bytes,
                       std::span<const std::byte> data) noexcept {
  RangeRead& read = *job.outer;
  if (data.size() > read.out.size()) return false;
  if (!job.expected.empty() && (job.expected != version || job.object_bytes != object_bytes)) return false;
  if (!accepts(job, version, object_bytes)) return false;
  if (!data.empty()) std::memcpy(read.out.data(), data.data(), data.size());
  read.status = {};
  read.bytes = data.size();
  read.object_bytes = object_bytes;
  read.cache = RangeCache::kHit;
  disk_->count_hit(data.size());
  return true;
}

// Whether the read may have bytes of this version; if so, tells it the version.
bool CachedReads::accepts(Job& job, std::string_view version, std::uint64_t object_bytes) noexcept {
  RangeRead& read = *job.outer;
  if (!read.version.empty() && read.version != version) return false;
  try {
    if (job.expected.empty() && !job.vouched) {
      const std::uint64_t now = base::now_ns();
      std::lock_guard lock(reads_.mutex());
      const ObjectVersion* const told = versions_.find(job.object, now);
      if (told == nullptr) {
        if (trust_ != CacheTrust::kStore || !has_answered_) return false;
        // An older version that CacheTrust accepts. It becomes the object's version from here on, so that versions are
        // never mixed.
        versions_.note(job.object, version, object_bytes, now);
      } else if (told->text != version || told->object_bytes != object_bytes) {
        return false;
      }
    }
    read.found_version.assign(version);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// Each waiting read chooses again, `alone` or together with others.
void CachedReads::resume(FetchTable::Reader* waiting, bool alone) noexcept {
  while (waiting != nullptr) {
    Job& job = static_cast<Job&>(*waiting);
    waiting = waiting->next_reader;
    job.alone = job.alone || alone;
    job.next = Next::kChoose;
    disk_->submit(job);
  }
}

// Another read makes the request in place of this one, for all that wait.
void CachedReads::pass_on(Job& job) noexcept {
  if (!job.leads) return;
  job.leads = false;
  FetchTable::Reader* const waiting = disk_->fetches().pass_on(job.led, base::now_ns());
  if (waiting == nullptr) return;
  Job& next = static_cast<Job&>(*waiting);
  next.leads = true;
  next.led = job.led;
  next.next = next.led == next.id ? Next::kOrigin : Next::kVersion;
  disk_->submit(next);
}

// The request has failed, or the object is `absent`. Other reads do not take over an error: each asks for itself.
void CachedReads::send_away(Job& job, bool absent) noexcept {
  if (!job.leads) return;
  job.leads = false;
  FetchTable::Reader* waiting = disk_->fetches().end(job.led);
  while (waiting != nullptr) {
    Job& other = static_cast<Job&>(*waiting);
    waiting = waiting->next_reader;
    other.alone = true;
    other.next = absent && other.owner == this && other.version.empty() ? Next::kAbsent : Next::kChoose;
    disk_->submit(other);
  }
}

// Gives the bytes to the reads that waited for them. Copying is left to the cache's threads as long as there is a copy
// to take them from.
void CachedReads::hand_over(const DiskCache::Offered& offered, std::string_view version, std::uint64_t object_bytes,
                            std::span<const std::byte> data) noexcept {
  FetchTable::Reader* waiting = offered.waiting;
  while (waiting != nullptr) {
    Job& job = static_cast<Job&>(*waiting);
    waiting = waiting->next_reader;
    job.vouched = job.owner == this;
    if (offered.copy != nullptr) {
      job.fetched = offered.copy;
      job.next = Next::kMemory;
    } else if (job.reads->take(job, version, object_bytes, data)) {
      job.reads->finish(job);
      continue;
    } else {
      job.alone = true;
      job.next = Next::kChoose;
    }
    disk_->submit(job);
  }
}

void CachedReads::start_wrapped(Job& job) noexcept {
  ask(job);
  Status status;
  if (reads_.send(job, status)) return;
  send_away(job, false);
  job.outer->status = std::move(status);
  finish(job);
}

void CachedReads::done(std::span<RangeRead* const> reads) noexcept {
  for (RangeRead* const read : reads) {
    Job& job = base::ForwardedReads<Job>::job_of(*read);
    if (job.next == Next::kVersion) {
      told_version(job);
    } else {
      answered(job);
    }
  }
}

// The underlying store has returned the first byte, and with it the version.
void CachedReads::told_version(Job& job) noexcept {
  const RangeRead& inner = job.inner;
  RangeRead& read = *job.outer;
  const bool absent = inner.status.code() == Code::kNotFound;
  if (!inner.status.ok() && !absent) {
    end_failed(job, inner.status);
    read.status = inner.status;
    return finish(job);
  }
  bool remembered = false;
  {
    std::lock_guard lock(reads_.mutex());
    has_answered_ = true;
    job.asked_version = true;
    job.next = absent ? Next::kOrigin : Next::kChoose;
    try {
      if (!absent && !inner.found_version.empty() && inner.object_bytes != RangeRead::kUnknown) {
        const std::uint64_t now = base::now_ns();
        versions_.note(job.object, inner.found_version, inner.object_bytes, now);
        remembered = versions_.find(job.object, now) != nullptr;
        if (job.place && job.place->tag != version_tag(inner.found_version, inner.object_bytes)) {
          disk_->forget(job.id, *job.place);
        } else if (job.place && (read.version.empty() || read.version == inner.found_version)) {
          job.expected = inner.found_version;
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
  if (job.leads) {
    job.leads = false;
    resume(disk_->fetches().end(job.led), !remembered);
  }
  disk_->submit(job);
}

// A fetch for others has ended without bytes for them.
void CachedReads::end_failed(Job& job, const Status& status) noexcept {
  if (status.code() == Code::kCancelled) {
    pass_on(job);
  } else {
    send_away(job, status.code() == Code::kNotFound && job.version.empty());
  }
}

// REQUIRES: reads_.mutex() is held.
void CachedReads::forget_all() noexcept {
  versions_.clear();
  disk_->fetches().close_store(store_);
}

// A changed array, such as one that has grown, has other chunks: everything known about objects is discarded. REQUIRES:
// reads_.mutex() is held.
void CachedReads::note_document(const Job& job) {
  const ObjectVersion* const told = versions_.find(job.object, 0);
  const std::string& version = job.inner.found_version;
  if (version.empty() || (told != nullptr && told->text != version)) forget_all();
  if (!version.empty()) versions_.note(job.object, version, job.inner.object_bytes, base::now_ns());
}

void CachedReads::answered(Job& job) noexcept {
  RangeRead& inner = job.inner;
  RangeRead& read = *job.outer;
  const bool kept = job.next == Next::kOrigin, good = is_consistent(read, inner);
  {
    std::lock_guard lock(reads_.mutex());
    if (inner.status.ok() || inner.status.code() == Code::kNotFound) has_answered_ = true;
    try {
      if (!kept && inner.status.ok() && base::is_zarr_document(read.key)) note_document(job);
    } catch (const std::bad_alloc&) {
      forget_all();
    }
    if (kept) {
      if (inner.status.ok()) has_versions_ = good;
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
    if (good) {
      // Before done(), after which the reader may reuse the memory.
      const std::span<const std::byte> data = read.out.first(inner.bytes);
      hand_over(disk_->offer(job.id, inner.found_version, inner.object_bytes, data, std::exchange(job.leads, false)),
                inner.found_version, inner.object_bytes, data);
    } else {
      end_failed(job, inner.status);
    }
  }
  read.cache = kept ? RangeCache::kMiss : RangeCache::kNone;
  read.bytes = inner.bytes;
  read.object_bytes = inner.object_bytes;
  read.found_version.swap(inner.found_version);
  read.status = std::move(inner.status);
  finish(job);
}

}  // namespace headrace::cache
