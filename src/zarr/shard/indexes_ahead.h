// IndexesAhead: indexes of one level of shards, asked for together before they are wanted, where each costs a round
// trip to a user's store.
//
// Threads: one at a time, but for cancel() and done(): any.
// Owns:    its reads, and waits for them before it goes.
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

// The index of a shard, or of one inside a shard that is open.
struct WantedIndex {
  std::uint64_t object = 0, unit = 0;                // which of the footprint's
  std::shared_ptr<const OpenShard> shard = nullptr;  // that it is in; null: it is the object's own
  ShardEntry range = {};                             // the inner shard's bytes in the object

  bool is(const WantedIndex& other) const noexcept {
    return object == other.object && unit == other.unit && shard == other.shard;
  }
};

class IndexesAhead final : private RangeListener {
 public:
  // Indexes have `index_bytes`, an object's own at an end of it; there are no more than `all`. As many are asked for as
  // fit some memory of the budget; none where not even that is left.
  IndexesAhead(ByteStore& store, std::uint64_t index_bytes, bool at_end, std::uint64_t all,
               std::shared_ptr<base::MemoryBudget> budget)
      : store_(store),
        index_bytes_(index_bytes),
        at_end_(at_end),
        memory_(std::move(budget)),
        most_(static_cast<std::size_t>(all < kMost ? all : kMost)) {}
  ~IndexesAhead();

  // What a plan may keep in memory ahead of its need, of each kind.
  static std::uint64_t most_bytes(const base::MemoryBudget* budget) noexcept;
  static constexpr std::size_t kMost = 128;

  // Whether so few are under way that it is time to ask for more, and how many there is room for.
  std::size_t wanted();
  // Asks for the index of an object, or for one that begins at byte `at` of an object that is open, by the next
  // start(). Throws std::bad_alloc, and has then not asked.
  void ask(WantedIndex index, std::string_view key);
  void ask(WantedIndex index, std::uint64_t at);
  // It has its place among those asked for, but nothing is read.
  void pass(WantedIndex index);
  void start();

  bool any() const noexcept { return asked_ > 0; }
  // Of those asked for and not taken, the first. REQUIRES: any().
  const WantedIndex& next() const noexcept { return slots_[first_].index; }
  bool came();  // whether take() would not wait
  // The same; else `listener`, which outlives this, is told once it would not.
  bool came_or_tell(transfer::LookupListener& listener);
  struct Answer {
    WantedIndex index;
    RangeRead* read;  // null: passed. Valid until something is asked for
  };
  Answer take();  // REQUIRES: any()

  // Whoever waits, or comes to, is not to wait for long.
  void cancel() noexcept;
  // Forgets what was asked for, and gives its memory back; fewer are asked for from now on. False: there was none.
  bool let_go() noexcept;

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
  void stop_reads(bool for_good) noexcept;
  bool came_locked(const Slot& slot) const noexcept { return slot.done && cancelling_ == 0; }
  void announce_locked() noexcept;

  ByteStore& store_;
  const std::uint64_t index_bytes_;
  const bool at_end_;
  base::Charge memory_;
  std::size_t most_;
  std::vector<Slot> slots_;
  std::size_t first_ = 0, asked_ = 0;  // slots from first_ on: asked for and not taken
  std::vector<RangeRead*> next_;       // asked for since the last start()
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<RangeRead*> started_;  // guarded by mutex_: not ended
  std::size_t cancelling_ = 0;       // guarded by mutex_
  // guarded by mutex_: to be told when the slot has come; null: nobody
  transfer::LookupListener* listener_ = nullptr;
  const Slot* awaited_ = nullptr;
  bool cancelled_ = false;  // guarded by mutex_
};

}  // namespace headrace::zarr
