// IndexesAhead: requests indexes of one level of shards together and in advance, for user-supplied stores (ByteStore)
// where each costs a round trip.
//
// Threads: one at a time; cancel() and done() from any thread.
// Owns:    its reads. The destructor waits for them.
#pragma once

#include <headrace/byte_store.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "zarr/shard/open_shard.h"

namespace headrace::zarr {

// The index of a shard, or of a shard inside an open shard.
struct WantedIndex {
  std::uint64_t object = 0, unit = 0;                // as the footprint numbers them
  std::shared_ptr<const OpenShard> shard = nullptr;  // the shard that contains it; null: the object's own index
  ShardEntry range = {};                             // the inner shard's bytes in the object

  bool is(const WantedIndex& other) const noexcept {
    return object == other.object && unit == other.unit && shard == other.shard;
  }
};

class IndexesAhead final : private RangeListener {
 public:
  // Each index has `index_bytes` bytes; an object's own index is at its end or start (`at_end`). There are at most
  // `all` indexes. A small part of the budget limits how many are requested at a time; none are if it has no room.
  IndexesAhead(ByteStore& store, std::uint64_t index_bytes, bool at_end, std::uint64_t all,
               std::shared_ptr<base::MemoryBudget> budget)
      : store_(store),
        index_bytes_(index_bytes),
        at_end_(at_end),
        memory_(std::move(budget)),
        max_(static_cast<std::size_t>(all < kMax ? all : kMax)) {}
  ~IndexesAhead();

  // Limit of what a plan keeps ahead. It applies per level, to indexes being read and again to opened shards.
  static std::uint64_t max_bytes(const base::MemoryBudget* budget) noexcept;
  static constexpr std::size_t kMax = 128;

  // How many more to request now. 0 while more than half of the places are in use, so that requests are made in
  // batches.
  std::size_t wanted();
  // Queues the index of an object, or an index at byte `at` of an open object, for the next start(). Throws
  // std::bad_alloc, and then nothing is queued.
  void enqueue(WantedIndex index, std::string_view key);
  void enqueue(WantedIndex index, std::uint64_t at);
  // Queues an index in order without reading it.
  void enqueue_without_read(WantedIndex index);
  void start();

  bool has_pending() const noexcept { return pending_ > 0; }
  // The oldest index that was queued and not taken. REQUIRES: has_pending().
  const WantedIndex& next() const noexcept { return slots_[first_].index; }
  bool is_ready();  // whether take() would return at once
  // The same. If false, calls `listener` (which must outlive this object) once take() would return at once.
  bool is_ready_or_notify(transfer::LookupListener& listener);
  struct Answer {
    WantedIndex index;
    // Null: queued by enqueue_without_read(). Valid until something else is queued.
    RangeRead* read;
  };
  Answer take();  // REQUIRES: has_pending()

  // Cancels the reads; present and future waits end soon.
  void cancel() noexcept;
  // Drops all requests and releases their memory. Fewer are made at a time from then on. False: there were none.
  bool drop_all() noexcept;

 private:
  struct Slot : RangeRead {
    WantedIndex index;
    std::string own_key;
    std::vector<std::byte> bytes;
    bool reads = false;
    bool done = false;  // guarded by mutex_
  };
  void done(std::span<RangeRead* const> reads) noexcept override;
  Slot& at(std::size_t place) noexcept { return slots_[(first_ + place) % slots_.size()]; }
  Slot& begin_slot();
  void end_slot(Slot& slot, WantedIndex&& index);
  void stop_reads(bool permanently) noexcept;
  bool is_ready_locked(const Slot& slot) const noexcept { return slot.done && cancelling_ == 0; }
  void announce_locked() noexcept;

  ByteStore& store_;
  const std::uint64_t index_bytes_;
  const bool at_end_;
  base::Charge memory_;
  std::size_t max_;
  std::vector<Slot> slots_;
  std::size_t first_ = 0, pending_ = 0;  // slots from first_ on: requested and not taken
  std::vector<RangeRead*> next_;         // queued since the last start()
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RangeRead*> in_flight_;  // guarded by mutex_: reads in flight
  std::size_t cancelling_ = 0;         // guarded by mutex_
  // guarded by mutex_: called when awaited_ has arrived; null: there is no waiter
  transfer::LookupListener* listener_ = nullptr;
  const Slot* awaited_ = nullptr;
  bool cancelled_ = false;  // guarded by mutex_
};

}  // namespace headrace::zarr
