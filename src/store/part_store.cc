#include "store/part_store.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "store/range_read.h"

namespace headrace::store {
namespace {

Status say(Code code, const char* what) noexcept {
  try {
    return Status(code, Layer::kStore, what);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

// The failure of a read that another store made for this one.
Status failure_of(const RangeRead& inner, std::string_view key) noexcept {
  try {
    const Status status = check_answer(inner);
    if (status.ok()) return {};
    std::string where = "bytes from " + std::to_string(inner.offset) + " of '" + std::string(inner.key) + "'";
    if (!status.cause().empty()) where += ": " + std::string(status.cause());
    return Status(status.code(), status.layer(), std::string(status.message())).with_key(key).with_cause(where);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace

// Another thread may still be returning from the last read's start_again(). In a forked child there is no such thread.
PartStore::~PartStore() {
  if (generation_ != base::fork_generation()) return;
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [&] { return calls_ == 0; });
}

Status PartStore::check_head(const Part&, std::span<const std::byte>, std::uint64_t&, std::uint64_t&) noexcept {
  return say(Code::kInternal, "an object without a head has none to check");
}

Status PartStore::check_whole(const Part&, std::span<const std::byte>) const noexcept { return {}; }

// Reserves room in every list, so that no list grows where failure is not allowed. REQUIRES: mutex_ is held.
PartStore::Job* PartStore::take_job() {
  if (free_.empty()) {
    const std::size_t count = 2 * jobs_.size() + 16;
    if (jobs_.size() == jobs_.capacity()) jobs_.reserve(count);
    active_.reserve(jobs_.capacity());
    free_.reserve(jobs_.capacity());
    resting_.reserve(jobs_.capacity());
    jobs_.push_back(std::make_unique<Job>());
    free_.push_back(jobs_.back().get());
  }
  Job* const job = free_.back();
  free_.pop_back();
  job->active_at = active_.size();
  job->serial = ++serials_;
  job->cancelled = job->forwarded = false;
  job->part = Part();
  job->stage = Stage::kEnded;
  active_.push_back(job);
  return job;
}

void PartStore::recycle(Job& job) noexcept {
  active_.back()->active_at = job.active_at;
  active_[job.active_at] = active_.back();
  active_.pop_back();
  job.outer = nullptr;
  (cancels_ != 0 ? resting_ : free_).push_back(&job);
}

void PartStore::finish(Job& job, Status status) noexcept {
  RangeRead* const read = job.outer;
  read->status = std::move(status);
  job.buffer.reset();
  if (job.charged != 0) budget_->give(std::exchange(job.charged, 0));
  {
    std::lock_guard lock(mutex_);
    recycle(job);
  }
  read->listener->done({&read, 1});
}

// Fills in the request to the other store.
void PartStore::ask(Job& job, std::uint64_t offset, std::span<std::byte> out) noexcept {
  RangeRead& inner = job.inner;
  inner.key = job.part.key;
  inner.offset = offset;
  inner.from_end = false;
  inner.out = out;
  inner.version = job.part.version.empty() ? job.outer->version : job.part.version;
  inner.listener = this;
  inner.user = reinterpret_cast<std::uint64_t>(&job);
  inner.status = {};
  inner.bytes = 0;
  inner.object_bytes = RangeRead::kUnknown;
  inner.found_version.clear();
  inner.cache = RangeCache::kNone;
}

void PartStore::ask_direct(Job& job) noexcept {
  job.stage = Stage::kDirect;
  ask(job, job.part.begin + job.offset, job.outer->out.first(static_cast<std::size_t>(job.length)));
  if (job.part.bytes == Part::kToTheEnd) job.inner.from_end = job.outer->from_end;
}

// False: there is no memory for it.
bool PartStore::ask_head(Job& job, std::uint64_t bytes) noexcept {
  bytes = std::min(bytes, job.part.end - job.part.head_at);
  job.buffer.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (job.buffer == nullptr) return false;
  job.stage = Stage::kHead;
  ask(job, job.part.head_at, {job.buffer.get(), static_cast<std::size_t>(bytes)});
  return true;
}

bool PartStore::ask_whole(Job& job) noexcept {
  const Part& part = job.part;
  const std::uint64_t bytes = std::min(part.head_bytes + part.bytes, part.end - part.head_at);
  if (budget_ != nullptr) {
    if (!budget_->take(bytes)) return false;
    job.charged = bytes;
  }
  job.buffer.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (job.buffer == nullptr) return false;
  job.stage = Stage::kWhole;
  ask(job, part.head_at, {job.buffer.get(), static_cast<std::size_t>(bytes)});
  return true;
}

// Decides what to request first. If that is nothing, the read has its result.
void PartStore::prepare(Job& job) noexcept {
  RangeRead& read = *job.outer;
  Part& part = job.part;
  read.status = locate(read.key, part);
  if (!read.status.ok()) return;
  if (!part.version.empty() && !read.version.empty() && read.version != part.version) {
    read.status = say(Code::kAgainExhausted, "the object was replaced");
    return;
  }
  const std::uint64_t room = read.out.size();
  if (part.bytes == Part::kToTheEnd) {
    job.offset = read.from_end ? 0 : read.offset;
    job.length = room;
    return ask_direct(job);
  }
  job.offset = read.from_end ? part.bytes - std::min(part.bytes, room) : std::min(read.offset, part.bytes);
  job.length = std::min(room, part.bytes - job.offset);
  if (part.store == nullptr) {
    read.status =
        end_with(job, part.memory.subspan(static_cast<std::size_t>(job.offset), static_cast<std::size_t>(job.length)));
    return;
  }
  const bool unchecked = part.has_head && !part.head_known;
  if (job.length == 0 && !(unchecked && part.bytes == 0)) {
    read.status = end_with(job, {});
    return;
  }
  const bool whole = part.has_head && job.length == part.bytes && (steady_ || unchecked);
  if (whole && ask_whole(job)) return;
  if (unchecked) {
    if (!ask_head(job, part.head_bytes)) read.status = Status::out_of_memory();
    return;
  }
  ask_direct(job);
}

Status PartStore::start(std::span<RangeRead* const> reads) {
  if (generation_ != base::fork_generation()) {
    return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
  }
  std::vector<Job*> jobs;
  try {
    jobs.reserve(reads.size());
    std::lock_guard lock(mutex_);
    for (RangeRead* const read : reads) {
      jobs.push_back(take_job());
      jobs.back()->outer = read;
    }
  } catch (const std::bad_alloc&) {
    std::lock_guard lock(mutex_);
    for (Job* const job : jobs) recycle(*job);
    return Status::out_of_memory();
  }
  for (Job* const job : jobs) prepare(*job);
  // Jobs without a request first, then by store. Once a store is called, its listener may end its jobs at any time.
  std::sort(jobs.begin(), jobs.end(), [](const Job* a, const Job* b) {
    const ByteStore* const at = a->stage == Stage::kEnded ? nullptr : a->part.store;
    const ByteStore* const bt = b->stage == Stage::kEnded ? nullptr : b->part.store;
    return std::less<>()(at, bt);
  });
  {
    std::lock_guard lock(mutex_);
    for (Job* const job : jobs) job->forwarded = job->stage != Stage::kEnded;
  }
  std::size_t begin = 0;
  for (; begin < jobs.size() && jobs[begin]->stage == Stage::kEnded; ++begin) {
    finish(*jobs[begin], std::move(jobs[begin]->outer->status));
  }
  for (std::size_t next = begin; begin < jobs.size(); begin = next) {
    ByteStore* const store = jobs[begin]->part.store;
    while (next < jobs.size() && jobs[next]->part.store == store) ++next;
    start_all(std::span(jobs).subspan(begin, next - begin));
  }
  return {};
}

// Starts jobs of one store, or ends them if it refuses.
void PartStore::start_all(std::span<Job* const> jobs) noexcept {
  Status failure;
  try {
    std::vector<RangeRead*> inner;
    inner.reserve(jobs.size());
    for (Job* const job : jobs) inner.push_back(&job->inner);
    if (start_reads(*jobs.front()->part.store, inner, failure)) return;
  } catch (const std::bad_alloc&) {
    failure = Status::out_of_memory();
  }
  for (Job* const job : jobs) finish(*job, failure);
}

// The next request of a read whose previous one has ended.
void PartStore::start_again(Job& job) noexcept {
  std::uint64_t serial = 0;
  bool cancelled = false;
  {
    std::lock_guard lock(mutex_);
    cancelled = job.cancelled;
    serial = job.serial;
    if (!cancelled) {
      job.forwarded = true;
      ++calls_;
    }
  }
  if (cancelled) return finish(job, say(Code::kCancelled, "the read was cancelled"));
  RangeRead* const one[] = {&job.inner};
  Status failure;
  if (!start_reads(*job.part.store, one, failure)) {
    finish(job, std::move(failure));
  } else {
    // Cancelled before the other store had the request.
    bool again = false;
    {
      std::lock_guard lock(mutex_);
      again = job.serial == serial && job.outer != nullptr && job.cancelled;
      if (again) ++cancels_;
    }
    if (again) cancel_inner(one);
  }
  std::lock_guard lock(mutex_);
  if (--calls_ == 0) returned_.notify_all();
}

void PartStore::cancel(std::span<RangeRead* const> reads) noexcept {
  if (generation_ != base::fork_generation()) return;
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
  cancel_inner(forwarded);
}

// REQUIRES: the caller has incremented cancels_, so that none of the jobs is reused meanwhile.
void PartStore::cancel_inner(std::span<RangeRead* const> reads) noexcept {
  // Each store ignores reads that are not its own.
  std::size_t at = 0;
  while (at < reads.size()) {
    ByteStore* const store = reinterpret_cast<Job*>(reads[at]->user)->part.store;  // NOLINT: stored by ask()
    std::size_t next = at + 1;
    while (next < reads.size() && reinterpret_cast<Job*>(reads[next]->user)->part.store == store) ++next;  // NOLINT
    store->cancel(reads.subspan(at, next - at));
    at = next;
  }
  std::lock_guard lock(mutex_);
  if (--cancels_ != 0) return;
  free_.insert(free_.end(), resting_.begin(), resting_.end());
  resting_.clear();
}

void PartStore::done(std::span<RangeRead* const> reads) noexcept {
  for (RangeRead* const read : reads) answered(*reinterpret_cast<Job*>(read->user));  // NOLINT: stored by ask()
}

void PartStore::answered(Job& job) noexcept {
  bool again = false;
  Status status = take_answer(job, again);
  if (!again) return finish(job, std::move(status));
  {
    std::lock_guard lock(mutex_);
    job.forwarded = false;
  }
  start_again(job);
}

// `again`: the job has another request.
Status PartStore::take_answer(Job& job, bool& again) noexcept {
  RangeRead& inner = job.inner;
  Part& part = job.part;
  if (inner.status.code() == Code::kNotFound) return missing(part);
  HEADRACE_TRY(failure_of(inner, job.outer->key));
  if (part.object_bytes != RangeRead::kUnknown && inner.object_bytes != RangeRead::kUnknown &&
      inner.object_bytes != part.object_bytes) {
    return say(Code::kAgainExhausted, "the object was replaced");
  }
  if (job.stage == Stage::kDirect) {
    if (part.bytes != Part::kToTheEnd && inner.bytes != job.length) {
      return say(Code::kShort, "the object that holds the bytes ends before them");
    }
    return end_with(job, inner.out.first(static_cast<std::size_t>(inner.bytes)));
  }
  const std::span<const std::byte> got(job.buffer.get(), static_cast<std::size_t>(inner.bytes));
  std::uint64_t begin = 0, needed = 0;
  if (Status status = check_head(part, got, begin, needed); !status.ok()) {
    // Once: the head is longer than usual.
    if (status.code() != Code::kShort || needed <= inner.out.size() || inner.bytes != inner.out.size()) return status;
    again = ask_head(job, needed);
    return again ? Status() : Status::out_of_memory();
  }
  part.begin = begin;
  part.head_known = true;
  if (job.stage == Stage::kWhole && begin - part.head_at <= got.size() &&
      part.bytes <= got.size() - (begin - part.head_at)) {
    return end_with(job,
                    got.subspan(static_cast<std::size_t>(begin - part.head_at), static_cast<std::size_t>(part.bytes)));
  }
  if (job.length == 0) return end_with(job, {});
  ask_direct(job);
  again = true;
  return {};
}

// The read's result: these bytes, which may be in its memory already.
Status PartStore::end_with(Job& job, std::span<const std::byte> bytes) noexcept {
  RangeRead& read = *job.outer;
  const Part& part = job.part;
  if (job.offset == 0 && bytes.size() == part.bytes) HEADRACE_TRY(check_whole(part, bytes));
  if (!bytes.empty() && bytes.data() != read.out.data()) std::memcpy(read.out.data(), bytes.data(), bytes.size());
  read.bytes = bytes.size();
  read.object_bytes = part.bytes == Part::kToTheEnd ? job.inner.object_bytes : part.bytes;
  read.cache = job.stage == Stage::kEnded ? RangeCache::kNone : job.inner.cache;
  try {
    read.found_version.assign(part.version);
    if (part.version.empty() && job.stage != Stage::kEnded) read.found_version.swap(job.inner.found_version);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
  return {};
}

}  // namespace headrace::store
