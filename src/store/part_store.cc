#include "store/part_store.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

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

Status PartStore::check_head(const Part&, std::span<const std::byte>, std::uint64_t&, std::uint64_t&) noexcept {
  return say(Code::kInternal, "an object without a head has none to check");
}

Status PartStore::check_whole(const Part&, std::span<const std::byte>) const noexcept { return {}; }

void PartStore::finish(Job& job, Status status) noexcept {
  job.outer->status = std::move(status);
  job.buffer.reset();
  if (job.charged != 0) budget_->give(std::exchange(job.charged, 0));
  reads_.finish(job);
}

// Fills in the request to the other store.
void PartStore::ask(Job& job, std::uint64_t offset, std::span<std::byte> out) noexcept {
  RangeRead& inner = job.inner;
  inner.key = job.part.key;
  inner.offset = offset;
  inner.from_end = false;
  inner.out = out;
  inner.version = job.part.version.empty() ? job.outer->version : job.part.version;
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
  job.stage = Stage::kEnded;
  part = Part();
  read.status = locate(read.key, part);
  if (!read.status.ok()) return;
  job.inner_store = part.store;
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
  if (reads_.inherited()) {
    return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
  }
  std::vector<Job*> jobs;
  try {
    jobs = reads_.take(reads);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
  for (Job* const job : jobs) prepare(*job);
  // Jobs without a request first, then by store. Once a store is called, its listener may end its jobs at any time.
  std::sort(jobs.begin(), jobs.end(), [](const Job* a, const Job* b) {
    const ByteStore* const at = a->stage == Stage::kEnded ? nullptr : a->inner_store;
    const ByteStore* const bt = b->stage == Stage::kEnded ? nullptr : b->inner_store;
    return std::less<>()(at, bt);
  });
  std::size_t begin = 0;
  for (; begin < jobs.size() && jobs[begin]->stage == Stage::kEnded; ++begin) {
    finish(*jobs[begin], std::move(jobs[begin]->outer->status));
  }
  for (std::size_t next = begin; begin < jobs.size(); begin = next) {
    ByteStore* const store = jobs[begin]->inner_store;
    while (next < jobs.size() && jobs[next]->inner_store == store) ++next;
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
    if (reads_.send(inner, failure)) return;
  } catch (const std::bad_alloc&) {
    failure = Status::out_of_memory();
  }
  for (Job* const job : jobs) finish(*job, failure);
}

void PartStore::cancel(std::span<RangeRead* const> reads) noexcept {
  if (!reads_.inherited()) reads_.cancel(reads, [](Job&) {});
}

void PartStore::done(std::span<RangeRead* const> reads) noexcept {
  for (RangeRead* const read : reads) answered(base::ForwardedReads<Job>::job_of(*read));
}

void PartStore::answered(Job& job) noexcept {
  bool again = false;
  Status status = take_answer(job, again);
  if (again) {
    bool cancelled = false;
    {
      std::lock_guard lock(reads_.mutex());
      cancelled = job.cancelled;
    }
    if (cancelled) {
      status = say(Code::kCancelled, "the read was cancelled");
    } else if (reads_.send(job, status)) {
      return;
    }
  }
  finish(job, std::move(status));
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
