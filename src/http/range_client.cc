#include "http/range_client.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/fork.h"
#include "http/range_job.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kPartUnit = 64 << 10;        // parts begin at multiples of it
constexpr std::uint64_t kMaxHedgesBytes = 32 << 20;  // limit for the memory of all hedged (second) requests

Status changed(const char* what) { return Status(Code::kAgainExhausted, Layer::kStore, what); }

Status not_found() noexcept {
  try {
    return Status(Code::kNotFound, Layer::kStore, "no such object");
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace

std::int64_t ClientClock::system_unix_seconds() noexcept { return static_cast<std::int64_t>(::time(nullptr)); }

RangeClient::RangeClient(RangeService& service, const ClientOptions& options, std::unique_ptr<Transport> transport)
    : service_(service),
      options_(options),
      generation_(base::fork_generation()),
      server_(options.link, options.retry, options.transport.connections, options.clock.now_ns()),
      absent_(options.absent_ns),
      transport_(std::move(transport)) {
  transport_->use_connections(server_.connections());
}

// The transport's threads may still run after the last done().
RangeClient::~RangeClient() { transport_->stop(); }

std::int64_t RangeClient::server_now() const noexcept {
  return options_.clock.unix_s() + clock_ahead_.load(std::memory_order_relaxed);
}

RangeClient::Job* RangeClient::take_job() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    // Reserve room for every job, so that recycle_locked() cannot fail.
    if (free_.capacity() <= jobs_.size()) free_.reserve(2 * jobs_.size() + 16);
    jobs_.push_back(std::make_unique<Job>(*this));
    return jobs_.back().get();
  }
  Job* const job = free_.back();
  free_.pop_back();
  return job;
}

void RangeClient::recycle(Job* job) noexcept {
  std::lock_guard lock(mutex_);
  recycle_locked(job);
}

void RangeClient::recycle_locked(Job* job) noexcept {
  job->forget();
  free_.push_back(job);  // capacity was reserved in take_job()
}

// Must precede the first lock: in a forked child, a lock that the parent held is never released.
Status RangeClient::check_own() const {
  if (generation_ == base::fork_generation()) return {};
  return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
}

Status RangeClient::start(std::span<RangeRead* const> reads) {
  HEADRACE_TRY(check_own());
  std::vector<Job*> jobs;
  std::vector<RangeRead*> absent;
  Status status;
  try {
    jobs.reserve(reads.size());
    const std::uint64_t now = options_.clock.now_ns();
    std::size_t busy = reads.size();
    {
      std::lock_guard lock(mutex_);
      busy += running_.size();
    }
    for (RangeRead* const read : reads) {
      if (read->version.empty() && absent_.has(read->key, now)) {
        absent.push_back(read);
        continue;
      }
      Job* const job = take_job();
      jobs.push_back(job);
      const std::uint32_t parts = parts_of(*read, busy);
      if (parts > 1) {
        begin_split(*read, *job, parts, jobs);
      } else {
        job->prepare(*read, service_.place(read->key));
      }
      std::lock_guard lock(mutex_);
      running_[read] = job;
    }
    if (!jobs.empty()) status = go(jobs);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  if (!status.ok()) {
    std::lock_guard lock(mutex_);
    for (Job* const job : jobs) {
      running_.erase(job->read());
      recycle_locked(job);
    }
    return status;
  }
  for (RangeRead* const read : absent) {
    read->status = not_found();
    read->listener->done({&read, 1});
  }
  return {};
}

// Each running read gets its share of the connections. A read without a version that can be requested is not split: its
// parts could come from two versions.
std::uint32_t RangeClient::parts_of(const RangeRead& read, std::size_t busy) const {
  if (read.from_end || read.out.size() <= kPartUnit) return 1;
  const bool pinned =
      read.version.empty() ? tells_etags_.load(std::memory_order_relaxed) : strong_etag(read.version) == read.version;
  if (!pinned) return 1;
  return server_.link().parts(read.out.size(),
                              static_cast<std::uint32_t>(server_.connections() / std::max<std::size_t>(busy, 1)));
}

// Prepares all parts if the version is known; otherwise only the first, whose response names it. On an exception the
// jobs made so far are left in `jobs`.
void RangeClient::begin_split(RangeRead& read, Job& lead, std::uint32_t parts, std::vector<Job*>& jobs) {
  Split& split = lead.own_split();
  split.read = &read;
  split.part_bytes = base::align_up(base::ceil_div<std::uint64_t>(read.out.size(), parts), kPartUnit);
  split.etag = read.version;
  split.begun = !read.version.empty();
  split.deadline_ns = 0;
  split.failed = false;
  split.failure = {};
  split.parts.clear();
  split.parts.reserve(parts);
  const std::uint64_t first = std::min<std::uint64_t>(split.part_bytes, read.out.size());
  lead.prepare_part(split, service_.place(read.key), 0, read.out.first(static_cast<std::size_t>(first)));
  split.parts.push_back(&lead);
  const std::size_t before = jobs.size();
  if (split.begun) add_parts(split, first, read.out.size(), lead.place(), jobs);
  split.parts.insert(split.parts.end(), jobs.begin() + static_cast<std::ptrdiff_t>(before), jobs.end());
  split.left = split.parts.size();
}

// Adds parts for the range's bytes [begin, end).
void RangeClient::add_parts(Split& split, std::uint64_t begin, std::uint64_t end, const Url& place,
                            std::vector<Job*>& jobs) {
  if (begin < end) jobs.reserve(jobs.size() + static_cast<std::size_t>(base::ceil_div(end - begin, split.part_bytes)));
  while (begin < end) {
    const std::uint64_t bytes = std::min(split.part_bytes, end - begin);
    jobs.push_back(take_job());
    jobs.back()->prepare_part(
        split, place, begin, split.read->out.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes)));
    begin += bytes;
  }
}

// The first part's response has named the object's version and size: starts the other parts. Runs on the first part's
// transport thread.
Status RangeClient::begin_rest(Job& lead, std::uint64_t object_bytes) {
  Split& split = *lead.split();
  const std::uint64_t there = object_bytes - std::min(object_bytes, split.read->offset);
  const std::uint64_t end = std::min<std::uint64_t>(split.read->out.size(), there);
  std::vector<Job*> jobs;
  Status status;
  try {
    add_parts(split, lead.out().size(), end, lead.place(), jobs);
    bool wanted = true;
    {
      // Under the lock, so that cancel() either finds all of them or none is requested.
      std::lock_guard lock(mutex_);
      wanted = !lead.cancel_wanted.load(std::memory_order_relaxed);
      if (wanted) {
        split.parts.insert(split.parts.end(), jobs.begin(), jobs.end());
        split.left += jobs.size();
      }
    }
    if (!wanted) {
      status = status_of(ExchangeEnd::kCancelled, {});
    } else if (!jobs.empty()) {
      status = go(jobs);
    }
    if (status.ok()) return {};
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  std::lock_guard lock(mutex_);
  split.parts.resize(1);
  split.left = 1;
  for (Job* const part : jobs) recycle_locked(part);
  return status;
}

// The response shows that the range should be read by a single request.
void RangeClient::keep_whole(Job& lead) noexcept {
  std::lock_guard lock(mutex_);
  lead.leave_split();
}

void RangeClient::note_answer(const LinkAnswer& answer) noexcept {
  server_.answered(answer, transport_->any_waits());
  transport_->use_connections(server_.connections());
}

void RangeClient::note_refusal(bool throttles) noexcept {
  server_.refused(options_.clock.now_ns(), throttles);
  transport_->use_connections(server_.connections());
}

// With the lock.
void RangeClient::give_up_locked(Job& job) noexcept {
  job.cancel_wanted.store(true, std::memory_order_relaxed);
  if (job.rival != nullptr) job.rival->cancel_wanted.store(true, std::memory_order_relaxed);
}

// A late job: sends a second request if budget and memory allow. Runs on the transport thread that carries the first.
void RangeClient::hedge(Job& job) noexcept {
  const std::size_t bytes = job.out().size();
  {
    std::lock_guard lock(mutex_);
    if (!job.can_be_hedged() || job.rival != nullptr || job.cancel_wanted.load(std::memory_order_relaxed) ||
        hedged_bytes_ + bytes > kMaxHedgesBytes || !server_.take_hedge(options_.clock.now_ns())) {
      return;
    }
    hedged_bytes_ += bytes;
  }
  Job* second = nullptr;
  bool begun = false;
  try {
    second = take_job();
    second->prepare_hedge(job);
    bool prepared = false;
    {
      std::lock_guard lock(mutex_);
      const Result<bool> known = service_.prepared();
      prepared = known.ok() && *known && !job.cancel_wanted.load(std::memory_order_relaxed);
      if (prepared) {
        second->rival = &job;
        job.rival = second;
      }
    }
    if (prepared) {
      second->ask();
      Exchange* const one[] = {second};
      begun = transport_->start(one).ok();
    }
  } catch (const std::bad_alloc&) {  // continue with one request
  }
  if (begun) return;
  std::lock_guard lock(mutex_);
  job.rival = nullptr;
  hedged_bytes_ -= bytes;
  if (second == nullptr) return;
  second->drop_own();
  recycle_locked(second);
}

// Whether the hedged second request has already delivered the bytes of `job`.
bool RangeClient::lost_hedge(Job& job) {
  std::lock_guard lock(mutex_);
  return !job.hedges && job.rival != nullptr && job.rival->over && job.rival->outcome().status.ok();
}

// One of two requests for the same bytes has ended. The first success wins, but the range completes only when both have
// ended, so that the loser writes nothing afterwards. Returns the job that completes the range; null: not yet.
RangeClient::Job* RangeClient::settle(Job& job) noexcept {
  Job* first = nullptr;
  Job* parked = nullptr;
  bool stop = false;
  {
    std::lock_guard lock(mutex_);
    if (job.rival == nullptr) return &job;
    job.over = true;
    if (job.rival->over) {
      first = job.hedges ? job.rival : &job;
    } else if (job.outcome().status.ok()) {
      job.rival->cancel_wanted.store(true, std::memory_order_relaxed);
      stop = true;
      if (std::erase(parked_, job.rival) != 0) parked = job.rival;
    }
  }
  if (parked != nullptr) {
    parked->finish(status_of(ExchangeEnd::kCancelled, {}));  // this also completes the range
  } else if (stop) {
    transport_->look_for_cancelled();
  }
  if (first == nullptr) return nullptr;
  // Both have ended, so no other thread uses either.
  Job* const second = first->rival;
  if (!first->outcome().status.ok() && second->outcome().status.ok()) {
    std::memcpy(first->out().data(), second->out().data(), static_cast<std::size_t>(second->outcome().bytes));
    std::swap(first->outcome(), second->outcome());
  }
  std::lock_guard lock(mutex_);
  hedged_bytes_ -= second->out().size();
  first->rival = second->rival = nullptr;
  second->drop_own();
  recycle_locked(second);
  return first;
}

// A job has ended. Its read completes, or, if split, completes with its last part.
void RangeClient::ended(Job& one) noexcept {
  Job* const settled = settle(one);
  if (settled == nullptr) return;
  Job& job = *settled;
  RangeRead* const read = job.read();
  Split* const split = job.split();
  if (split == nullptr) {
    Job::Outcome& outcome = job.outcome();
    read->status = std::move(outcome.status);
    read->bytes = outcome.bytes;
    read->object_bytes = outcome.object_bytes;
    read->found_version.swap(outcome.version);
  } else if (!part_ended(job)) {
    return;
  } else {
    join(*split);
  }
  if (read->status.code() == Code::kNotFound && read->version.empty()) absent_.note(read->key, options_.clock.now_ns());
  {
    std::lock_guard lock(mutex_);
    running_.erase(read);
    if (split == nullptr) {
      recycle_locked(&job);
    } else {
      for (Job* const part : split->parts) recycle_locked(part);
    }
  }
  read->listener->done({&read, 1});
}

// Returns whether this was the last part. The first failure cancels the other parts.
bool RangeClient::part_ended(Job& job) noexcept {
  Split& split = *job.split();
  bool last = false, stop = false;
  {
    std::lock_guard lock(mutex_);
    Status& status = job.outcome().status;
    last = --split.left == 0;
    if (!status.ok() && !split.failed) {
      split.failed = true;
      split.failure = std::move(status);
      for (Job* const part : split.parts) give_up_locked(*part);
      stop = !last;
    }
  }
  if (stop) transport_->look_for_cancelled();
  return last;
}

// The result of a range whose parts have all ended: all bytes up to the object's end, or an error.
void RangeClient::join(Split& split) noexcept {
  RangeRead& read = *split.read;
  read.bytes = 0;
  try {
    if (split.failed) {
      // The object existed, so this is not a chunk that was never written.
      const bool removed = split.begun && split.failure.code() == Code::kNotFound;
      read.status =
          removed ? changed("the object was removed while it was read: read it again") : std::move(split.failure);
      return;
    }
    std::uint64_t size = RangeRead::kUnknown;
    for (Job* const part : split.parts) {
      const std::uint64_t told = part->outcome().object_bytes;
      if (told == RangeRead::kUnknown) continue;
      if (size != RangeRead::kUnknown && size != told) {
        read.status = Status(Code::kIo, Layer::kStore, "the server reports different sizes for parts of one object");
        return;
      }
      size = told;
    }
    std::uint64_t begin = 0;
    for (Job* const part : split.parts) {
      const std::uint64_t room = part->out().size(), from = std::min(size, read.offset);
      const std::uint64_t there = std::min(room, size - from - std::min(size - from, begin));
      if (part->outcome().bytes != there) {
        read.status = Status(Code::kShort, Layer::kStore, "the response to a part of a range is truncated");
        read.bytes = 0;
        return;
      }
      read.bytes += there;
      begin += room;
    }
    if (begin < std::min<std::uint64_t>(read.out.size(), size - std::min(size, read.offset))) {
      read.bytes = 0;
      read.status = Status(Code::kInternal, Layer::kStore, "a part of a range was not requested");
      return;
    }
    read.object_bytes = size;
    read.found_version = split.etag;
    read.status = {};
  } catch (const std::bad_alloc&) {
    read.bytes = 0;
    read.status = Status::out_of_memory();
  }
}

// Takes all jobs or none. Without credentials they wait for resume().
Status RangeClient::go(std::span<Job* const> jobs) {
  {
    // Under the lock, so that resume() cannot run between the check and the parking.
    std::lock_guard lock(mutex_);
    HEADRACE_TRY_ASSIGN(const bool prepared, service_.prepared());
    if (!prepared) {
      parked_.insert(parked_.end(), jobs.begin(), jobs.end());
      return {};
    }
  }
  std::vector<Exchange*> exchanges;
  exchanges.reserve(jobs.size());
  for (Job* const job : jobs) {
    job->ask();
    exchanges.push_back(job);
  }
  return transport_->start(exchanges);
}

void RangeClient::resume(const Status& status) noexcept {
  std::vector<Job*> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs.swap(parked_);
  }
  for (Job* const job : jobs) {
    Status how;
    try {
      if (job->cancel_wanted.load(std::memory_order_relaxed)) {
        how = status_of(ExchangeEnd::kCancelled, {});
      } else if (!status.ok()) {
        how = Status(status);
      } else {
        job->ask();
        Exchange* const one[] = {job};
        how = transport_->start(one);
        if (how.ok()) continue;
      }
    } catch (const std::bad_alloc&) {
      how = Status::out_of_memory();
    }
    job->finish(std::move(how));
  }
}

void RangeClient::cancel(std::span<RangeRead* const> reads) noexcept {
  if (generation_ != base::fork_generation()) return;
  bool any = false;
  std::vector<Job*> ended;
  {
    std::lock_guard lock(mutex_);
    for (RangeRead* const read : reads) {
      const auto found = running_.find(read);
      if (found == running_.end()) continue;
      any = true;
      Job& job = *found->second;
      give_up_locked(job);
      if (job.split() == nullptr) continue;
      for (Job* const part : job.split()->parts) give_up_locked(*part);
    }
    // End parked jobs now, since resume() may take seconds. Without memory for that, resume() ends them.
    try {
      std::erase_if(parked_, [&](Job* job) {
        if (!job->cancel_wanted.load(std::memory_order_relaxed)) return false;
        ended.push_back(job);
        return true;
      });
    } catch (const std::bad_alloc&) {
    }
  }
  for (Job* const job : ended) job->finish(status_of(ExchangeEnd::kCancelled, {}));
  if (any) transport_->look_for_cancelled();
}

Result<std::string> RangeClient::get_whole(const std::function<Url()>& place, std::uint64_t limit) {
  HEADRACE_TRY(check_own());
  Whole whole{place, limit, {}, {}, {}, {}};
  Job* const job = take_job();
  Job* const one[] = {job};
  Status status;
  try {
    job->prepare(whole, place());
    status = go(one);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  if (!status.ok()) {
    recycle(job);
    return status;
  }
  std::unique_lock lock(whole.mutex);
  whole.done_signal.wait(lock, [&] { return whole.done; });
  HEADRACE_TRY(whole.status);
  return std::move(whole.text);
}

}  // namespace headrace::http
