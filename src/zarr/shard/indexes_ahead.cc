#include "zarr/shard/indexes_ahead.h"

#include <algorithm>
#include <utility>

#include "store/range_read.h"

namespace headrace::zarr {

IndexesAhead::~IndexesAhead() {
  stop_reads(true);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return in_flight_.empty() && cancelling_ == 0; });
}

// A small part of the budget, since every running read takes as much.
std::uint64_t IndexesAhead::max_bytes(const base::MemoryBudget* budget) noexcept {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
  return budget == nullptr ? kMaxBytes : std::min(kMaxBytes, budget->limit_bytes() / 32);
}

std::size_t IndexesAhead::wanted() {
  if (slots_.empty()) {
    const std::uint64_t fit = max_bytes(memory_.budget().get()) / std::max<std::uint64_t>(index_bytes_, 1);
    auto count = static_cast<std::size_t>(std::min<std::uint64_t>(std::max<std::uint64_t>(fit, 1), max_));
    while (count > 0 && !memory_.grow_to(count * index_bytes_, "indexes of shards").ok()) count /= 2;
    if (count == 0) return 0;
    next_.reserve(count);
    {
      std::lock_guard lock(mutex_);
      in_flight_.reserve(count);
    }
    slots_ = std::vector<Slot>(count);
  }
  // Requests many at a time, so that stores can batch them.
  return pending_ <= slots_.size() / 2 ? slots_.size() - pending_ : 0;
}

IndexesAhead::Slot& IndexesAhead::begin_slot() {
  Slot& slot = at(pending_);
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
  ++pending_;
}

void IndexesAhead::enqueue(WantedIndex index, std::string_view key) {
  Slot& slot = begin_slot();
  slot.own_key = key;
  slot.key = slot.own_key;
  slot.from_end = at_end_;
  next_.push_back(&slot);
  end_slot(slot, std::move(index));
}

void IndexesAhead::enqueue(WantedIndex index, std::uint64_t at) {
  Slot& slot = begin_slot();
  const store::ByteSource::Ranges ranges = index.shard->object->ranges();  // slot.index keeps `ranges` alive
  slot.key = ranges.key;
  slot.version = ranges.version;
  slot.offset = at;
  next_.push_back(&slot);
  end_slot(slot, std::move(index));
}

void IndexesAhead::enqueue_without_read(WantedIndex index) {
  Slot& slot = at(pending_);
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
    if (!cancelled) in_flight_.insert(in_flight_.end(), next_.begin(), next_.end());
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

bool IndexesAhead::is_ready() {
  std::lock_guard lock(mutex_);
  return is_ready_locked(at(0));
}

bool IndexesAhead::is_ready_or_notify(transfer::LookupListener& listener) {
  std::lock_guard lock(mutex_);
  if (is_ready_locked(at(0))) return true;
  listener_ = &listener;
  awaited_ = &at(0);
  return false;
}

// Holds the lock while it notifies, because a waiter or the listener may destroy this object afterwards.
void IndexesAhead::announce_locked() noexcept {
  changed_.notify_all();
  if (listener_ != nullptr && is_ready_locked(*awaited_)) std::exchange(listener_, nullptr)->lookup_done();
}

IndexesAhead::Answer IndexesAhead::take() {
  Slot& slot = at(0);
  {
    std::unique_lock lock(mutex_);
    // Also waits for running cancel() calls of the store: the slot is about to be reused.
    changed_.wait(lock, [&] { return is_ready_locked(slot); });
  }
  first_ = (first_ + 1) % slots_.size();
  --pending_;
  return {std::exchange(slot.index, {}), slot.reads ? &slot : nullptr};
}

void IndexesAhead::cancel() noexcept { stop_reads(true); }

void IndexesAhead::stop_reads(bool permanently) noexcept {
  std::vector<RangeRead*> reads;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = cancelled_ || permanently;
    try {
      reads = in_flight_;
    } catch (const std::bad_alloc&) {  // without the list, the reads run to completion
    }
    ++cancelling_;
  }
  if (!reads.empty()) store_.cancel(reads);
  std::lock_guard lock(mutex_);
  --cancelling_;
  announce_locked();
}

bool IndexesAhead::drop_all() noexcept {
  if (slots_.empty()) return false;
  stop_reads(false);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_flight_.empty() && cancelling_ == 0; });
  }
  max_ = slots_.size() / 4;
  next_.clear();
  slots_ = {};
  first_ = pending_ = 0;
  memory_.give_all();
  return true;
}

void IndexesAhead::done(std::span<RangeRead* const> reads) noexcept {
  std::lock_guard lock(mutex_);
  for (RangeRead* read : reads) {
    std::erase(in_flight_, read);
    static_cast<Slot*>(read)->done = true;
  }
  announce_locked();
}

}  // namespace headrace::zarr
