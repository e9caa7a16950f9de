#include "zarr/shard/indexes_ahead.h"

#include <algorithm>
#include <utility>

#include "store/range_read.h"

namespace headrace::zarr {
namespace {

constexpr std::size_t kMost = 128;
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

}  // namespace

IndexesAhead::~IndexesAhead() {
  cancel();
  std::unique_lock lock(mutex_);
  came_.wait(lock, [&] { return started_.empty() && cancelling_ == 0; });
}

std::size_t IndexesAhead::wanted() {
  if (slots_.empty()) {
    std::size_t count = std::clamp<std::uint64_t>(kMostBytes / std::max<std::uint64_t>(index_bytes_, 1), 1, kMost);
    while (count > 0 && !memory_.grow_to(count * index_bytes_, "indexes of shards").ok()) count /= 2;
    if (count == 0) return 0;
    slots_.resize(count);
    next_.reserve(count);
    std::lock_guard lock(mutex_);
    started_.reserve(count);
  }
  // Many at a time, so that stores can put requests together.
  return asked_ <= slots_.size() / 2 ? slots_.size() - asked_ : 0;
}

void IndexesAhead::ask(std::uint64_t shard, std::string_view key) {
  Slot& slot = at(asked_);
  slot.shard = shard;
  slot.shard_key = key;
  slot.index.resize(static_cast<std::size_t>(index_bytes_));
  static_cast<RangeRead&>(slot) = RangeRead();
  slot.key = slot.shard_key;
  slot.from_end = at_end_;
  slot.out = slot.index;
  slot.listener = this;
  slot.done = false;
  next_.push_back(&slot);
  ++asked_;
}

void IndexesAhead::start() {
  if (next_.empty()) return;
  Status failure;
  bool begun = false, cancelled = false;
  {
    std::lock_guard lock(mutex_);
    cancelled = cancelled_;
    if (!cancelled) started_.insert(started_.end(), next_.begin(), next_.end());
  }
  if (cancelled) {
    failure = Status(Code::kCancelled, Layer::kZarr, "the read was cancelled");
  } else {
    begun = store::start_reads(store_, next_, failure);
  }
  if (!begun) {
    for (RangeRead* read : next_) read->status = failure;
    done(next_);
  } else {
    std::unique_lock lock(mutex_);
    cancelled = cancelled_;  // before the store had them
    lock.unlock();
    if (cancelled) cancel();
  }
  next_.clear();
}

RangeRead* IndexesAhead::take(std::uint64_t shard) {
  if (asked_ == 0 || at(0).shard != shard) return nullptr;
  Slot& slot = at(0);
  std::unique_lock lock(mutex_);
  // Not while a store is asked to cancel it: the slot is used again.
  came_.wait(lock, [&] { return slot.done && cancelling_ == 0; });
  first_ = (first_ + 1) % slots_.size();
  --asked_;
  return &slot;
}

void IndexesAhead::cancel() noexcept {
  std::vector<RangeRead*> reads;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    try {
      reads = started_;
    } catch (const std::bad_alloc&) {  // they end by themselves
    }
    ++cancelling_;
  }
  if (!reads.empty()) store_.cancel(reads);
  std::lock_guard lock(mutex_);
  --cancelling_;
  came_.notify_all();
}

void IndexesAhead::done(std::span<RangeRead* const> reads) noexcept {
  std::lock_guard lock(mutex_);
  for (RangeRead* read : reads) {
    std::erase(started_, read);
    static_cast<Slot*>(read)->done = true;
  }
  came_.notify_all();  // with the lock: whoever waits may free this
}

}  // namespace headrace::zarr
