#include "zarr/shard/indexes_ahead.h"

#include <algorithm>
#include <utility>

#include "store/range_read.h"

namespace headrace::zarr {

IndexesAhead::~IndexesAhead() {
  stop_reads(true);
  std::unique_lock lock(mutex_);
  came_.wait(lock, [&] { return started_.empty() && cancelling_ == 0; });
}

// A small part of the budget, since every running read takes as much.
std::uint64_t IndexesAhead::most_bytes(const base::MemoryBudget* budget) noexcept {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
  return budget == nullptr ? kMostBytes : std::min(kMostBytes, budget->limit_bytes() / 32);
}

std::size_t IndexesAhead::wanted() {
  if (slots_.empty()) {
    const std::uint64_t fit = most_bytes(memory_.budget().get()) / std::max<std::uint64_t>(index_bytes_, 1);
    auto count = static_cast<std::size_t>(std::min<std::uint64_t>(std::max<std::uint64_t>(fit, 1), most_));
    while (count > 0 && !memory_.grow_to(count * index_bytes_, "indexes of shards").ok()) count /= 2;
    if (count == 0) return 0;
    next_.reserve(count);
    {
      std::lock_guard lock(mutex_);
      started_.reserve(count);
    }
    slots_ = std::vector<Slot>(count);
  }
  // Requests many at a time, so that stores can batch them.
  return asked_ <= slots_.size() / 2 ? slots_.size() - asked_ : 0;
}

IndexesAhead::Slot& IndexesAhead::begin_slot() {
  Slot& slot = at(asked_);
  slot.bytes.resize(static_cast<std::size_t>(index_bytes_));
  static_cast<RangeRead&>(slot) = RangeRead();
  slot.out = slot.bytes;
  slot.listener = this;
  slot.reads = true;
  slot.done = false;
  return slot;
}

void IndexesAhead::end_slot(Slot& slot, WantedIndex&& index) {
  slot.index = std::move(index);
  ++asked_;
}

void IndexesAhead::ask(WantedIndex index, std::string_view key) {
  Slot& slot = begin_slot();
  slot.own_key = key;
  slot.key = slot.own_key;
  slot.from_end = at_end_;
  next_.push_back(&slot);
  end_slot(slot, std::move(index));
}

void IndexesAhead::ask(WantedIndex index, std::uint64_t at) {
  Slot& slot = begin_slot();
  const store::ByteSource::Ranges ranges = index.shard->object->ranges();  // slot.index keeps `ranges` alive
  slot.key = ranges.key;
  slot.version = ranges.version;
  slot.offset = at;
  next_.push_back(&slot);
  end_slot(slot, std::move(index));
}

void IndexesAhead::pass(WantedIndex index) {
  Slot& slot = at(asked_);
  slot.reads = false;
  slot.done = true;
  end_slot(slot, std::move(index));
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
    cancelled = cancelled_;  // cancel() may have run before the store had the reads
    lock.unlock();
    if (cancelled) stop_reads(true);
  }
  next_.clear();
}

bool IndexesAhead::came() {
  std::lock_guard lock(mutex_);
  return came_locked(at(0));
}

bool IndexesAhead::came_or_tell(transfer::LookupListener& listener) {
  std::lock_guard lock(mutex_);
  if (came_locked(at(0))) return true;
  listener_ = &listener;
  awaited_ = &at(0);
  return false;
}

// Holds the lock while it notifies, because a waiter or the listener may destroy this object afterwards.
void IndexesAhead::announce_locked() noexcept {
  came_.notify_all();
  if (listener_ != nullptr && came_locked(*awaited_)) std::exchange(listener_, nullptr)->lookup_came();
}

IndexesAhead::Answer IndexesAhead::take() {
  Slot& slot = at(0);
  {
    std::unique_lock lock(mutex_);
    // Also waits for running cancel() calls of the store: the slot is about to be reused.
    came_.wait(lock, [&] { return came_locked(slot); });
  }
  first_ = (first_ + 1) % slots_.size();
  --asked_;
  return {std::exchange(slot.index, {}), slot.reads ? &slot : nullptr};
}

void IndexesAhead::cancel() noexcept { stop_reads(true); }

void IndexesAhead::stop_reads(bool for_good) noexcept {
  std::vector<RangeRead*> reads;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = cancelled_ || for_good;
    try {
      reads = started_;
    } catch (const std::bad_alloc&) {  // without the list, the reads run to completion
    }
    ++cancelling_;
  }
  if (!reads.empty()) store_.cancel(reads);
  std::lock_guard lock(mutex_);
  --cancelling_;
  announce_locked();
}

bool IndexesAhead::let_go() noexcept {
  if (slots_.empty()) return false;
  stop_reads(false);
  {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return started_.empty() && cancelling_ == 0; });
  }
  most_ = slots_.size() / 4;
  next_.clear();
  slots_ = {};
  first_ = asked_ = 0;
  memory_.give_all();
  return true;
}

void IndexesAhead::done(std::span<RangeRead* const> reads) noexcept {
  std::lock_guard lock(mutex_);
  for (RangeRead* read : reads) {
    std::erase(started_, read);
    static_cast<Slot*>(read)->done = true;
  }
  announce_locked();
}

}  // namespace headrace::zarr
