// IndexesAhead: the indexes of the shards that a plan is about to open, asked for together where each costs a round
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

namespace headrace::zarr {

class IndexesAhead final : private RangeListener {
 public:
  // Indexes have `index_bytes` at an end of their shards. As many are asked for as fit some memory of the budget; none
  // where not even that is left.
  IndexesAhead(ByteStore& store, std::uint64_t index_bytes, bool at_end, std::shared_ptr<base::MemoryBudget> budget)
      : store_(store), index_bytes_(index_bytes), at_end_(at_end), memory_(std::move(budget)) {}
  ~IndexesAhead();

  // Whether so few are under way that it is time to ask for more, and how many there is room for.
  std::size_t wanted();
  // Asks for the index of a shard, by the next start(). Throws std::bad_alloc, and has then not asked.
  void ask(std::uint64_t shard, std::string_view key);
  void start();
  // Waits for the index that was asked for longest ago if it is that of `shard`; null: it is another's. Valid until the
  // next ask().
  RangeRead* take(std::uint64_t shard);
  // Whoever waits, or comes to, is not to wait for long.
  void cancel() noexcept;

 private:
  struct Slot : RangeRead {
    std::uint64_t shard = 0;
    std::string shard_key;
    std::vector<std::byte> index;
    bool done = false;  // guarded by mutex_
  };
  void done(std::span<RangeRead* const> reads) noexcept override;
  Slot& at(std::size_t place) noexcept { return slots_[(first_ + place) % slots_.size()]; }

  ByteStore& store_;
  const std::uint64_t index_bytes_;
  const bool at_end_;
  base::Charge memory_;
  std::vector<Slot> slots_;
  std::size_t first_ = 0, asked_ = 0;  // slots from first_ on: asked for and not taken
  std::vector<RangeRead*> next_;       // asked for since the last start()
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<RangeRead*> started_;  // guarded by mutex_: not ended
  std::size_t cancelling_ = 0;       // guarded by mutex_
  bool cancelled_ = false;           // guarded by mutex_
};

}  // namespace headrace::zarr
