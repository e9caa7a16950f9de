#include "transfer/fetch/store_reads.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/trace.h"
#include "store/range_read.h"
#include "transfer/fetch/io_service.h"

namespace headrace::transfer {
namespace {

StoreRead& of(RangeRead& range) noexcept {
  return *reinterpret_cast<StoreRead*>(range.user);  // NOLINT(performance-no-int-to-ptr): stored by start()
}

Status cancelled() noexcept {
  try {
    return Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled");
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace

void StoreReads::set_cancelled(StoreRead& read) noexcept { read.range.status = cancelled(); }

// Registers reads of one store as started. False: they are cancelled. Throws std::bad_alloc before registering any.
bool StoreReads::admit(std::span<StoreRead* const> reads, std::uint64_t& cancels) {
  std::lock_guard lock(mutex_);
  cancels = cancels_;
  if (reads.front()->job->sink->cancelled()) return false;
  const std::size_t all = started_.size() + reads.size();
  if (started_.capacity() < all) started_.reserve(2 * all);
  for (StoreRead* read : reads) {
    read->place = started_.size();
    started_.push_back(read);
  }
  ++calls_;
  return true;
}

// One call per run of reads with the same sink and store.
void StoreReads::start(std::span<StoreRead* const> reads) noexcept {
  while (!reads.empty()) {
    const StoreRead& first = *reads.front();
    ByteStore& store = *first.store;
    const auto end = std::find_if(reads.begin(), reads.end(), [&](const StoreRead* read) {
      return read->job->sink != first.job->sink || read->store != first.store;
    });
    const auto run = reads.first(static_cast<std::size_t>(end - reads.begin()));
    reads = reads.subspan(run.size());
    std::uint64_t cancels = 0;
    Status failure;
    bool admitted = false;
    try {
      starting_.clear();
      for (StoreRead* read : run) {
        RangeRead& range = read->range;
        range.key = read->key;
        range.out = read->job->memory().first(static_cast<std::size_t>(read->job->length));
        range.offset = read->job->offset;
        range.listener = this;
        range.user = reinterpret_cast<std::uint64_t>(read);
        range.status = {};
        range.bytes = 0;
        range.object_bytes = RangeRead::kUnknown;
        range.found_version.clear();
        range.cache = RangeCache::kNone;
        starting_.push_back(&range);
      }
      admitted = admit(run, cancels);
      if (!admitted) failure = cancelled();
    } catch (const std::bad_alloc&) {
      failure = Status::out_of_memory();
    }
    if (!admitted) {
      for (StoreRead* read : run) {
        read->range.status = failure;
        read->next = nullptr;
        report(read);
      }
      continue;
    }
    if (!store::start_reads(store, starting_, failure)) {
      for (StoreRead* read : run) read->range.status = failure;
      done(starting_);
    }
    // A cancel() before the store had these reads missed them, so it is repeated.
    bool again = false;
    {
      std::lock_guard lock(mutex_);
      again = cancels != cancels_;
    }
    if (again) cancel();
    end_call();
  }
}

void StoreReads::cancel() noexcept {
  std::vector<StoreRead*> unwanted;
  std::vector<RangeRead*> ranges;
  {
    std::lock_guard lock(mutex_);
    ++cancels_;
    try {
      unwanted.reserve(started_.size());
      ranges.reserve(started_.size());
    } catch (const std::bad_alloc&) {
      return;  // they end by themselves
    }
    for (StoreRead* read : started_) {
      if (read->job->sink->cancelled()) unwanted.push_back(read);
    }
    ++calls_;
  }
  std::sort(unwanted.begin(), unwanted.end(),
            [](const StoreRead* a, const StoreRead* b) { return std::less<>()(a->store, b->store); });
  for (std::size_t begin = 0; begin < unwanted.size();) {
    ByteStore& store = *unwanted[begin]->store;
    ranges.clear();
    for (; begin < unwanted.size() && unwanted[begin]->store == &store; ++begin) {
      ranges.push_back(&unwanted[begin]->range);
    }
    store.cancel(ranges);
  }
  end_call();
}

// Called when a call into a store has returned.
void StoreReads::end_call() noexcept {
  StoreRead* ended = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (--calls_ == 0) ended = std::exchange(held_, nullptr);
  }
  report(ended);
}

void StoreReads::done(std::span<RangeRead* const> reads) noexcept {
  StoreRead* ended = nullptr;
  {
    std::lock_guard lock(mutex_);
    for (RangeRead* range : reads) {
      StoreRead& read = of(*range);
      started_.back()->place = read.place;
      started_[read.place] = started_.back();
      started_.pop_back();
      StoreRead*& list = calls_ != 0 ? held_ : ended;
      read.next = std::exchange(list, &read);
    }
  }
  report(ended);
}

// One call per run of jobs with the same sink. After the last call this object may be gone.
void StoreReads::report(StoreRead* first) noexcept {
  constexpr std::size_t kMax = 64;
  const std::uint64_t now = first != nullptr ? base::now_ns() : 0;
  while (first != nullptr) {
    ReadJob* jobs[kMax];
    IoSink* const sink = first->job->sink;
    std::size_t count = 0;
    for (; first != nullptr && count < kMax && first->job->sink == sink; first = first->next) {
      ReadJob& job = *first->job;
      job.seconds = job.start_ns != 0 ? static_cast<double>(now - job.start_ns) * 1e-9 : 0;
      if (job.start_ns != 0)
        trace::record(trace::Stage::kRead, job.start_ns, now, first->range.bytes, trace::TrackKind::kIo);
      jobs[count++] = &job;
    }
    sink->on_io_done({jobs, count});
  }
}

}  // namespace headrace::transfer
