// ShardsAhead: opens the shards of a plan, and shards inside them, ahead of the plan, for user-supplied stores
// (ByteStore) where each index costs a round trip.
//
// The plan opens shards one after another, in the order of the footprint and of their bytes. This class walks the same
// order ahead of it, level by level: it opens shards whose indexes have arrived, and requests the indexes inside them,
// for many shards at a time. A failure is kept until the plan reaches that shard, so errors appear in the plan's order.
//
// Threads: one at a time; cancel() from any thread.
// Fails:   as ShardAccess. If memory is short, everything read ahead is dropped and each shard is opened on demand.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "zarr/shard/indexes_ahead.h"
#include "zarr/shard/open_shard.h"
#include "zarr/shard/shard_units.h"

namespace headrace::zarr {

class ShardsAhead {
 public:
  using MakeKey = std::function<void(std::uint64_t object, std::string& key)>;
  using Shard = Result<std::shared_ptr<const OpenShard>>;
  using Inner = Result<std::shared_ptr<const InnerIndex>>;

  // All arguments must outlive this object.
  ShardsAhead(ByteStore& store, const Footprint& footprint, const ShardAccess& access, MakeKey make_key);

  // As ShardAccess::open(). Everything opened and read, also ahead, is added to `lookups`. nullopt: the index has been
  // requested, and `listener` is called when it arrives. The caller then repeats this call, with no other call in
  // between.
  std::optional<Shard> open(std::uint64_t object, Stats& lookups, transfer::LookupListener& listener);
  // As ShardAccess::open_inner(), for the unit of `level` that `task` of `object` stands for.
  std::optional<Inner> open_inner(std::uint64_t object, const std::shared_ptr<const OpenShard>& shard,
                                  std::size_t level, const transfer::Task& task, Stats& lookups,
                                  transfer::LookupListener& listener);

  // Stops all reads; waiting calls return soon.
  void cancel() noexcept;
  // Releases the memory of everything read ahead. False: there was nothing.
  bool drop_all() noexcept;

 private:
  // An opened shard that the plan has not reached yet.
  struct Found {
    WantedIndex name;
    Shard shard;  // of level 0
    Inner inner;  // of the others
    std::size_t bytes = 0;
  };
  struct Level {
    Level(ByteStore& store, const ShardIndexFormat& format, std::uint64_t all,
          const std::shared_ptr<base::MemoryBudget>& budget)
        : reads(store, format.encoded_bytes(), format.at_end(), all, budget) {
      inside.memory = base::Charge(budget);
    }
    IndexesAhead reads;
    std::deque<Found> found;
    std::size_t found_bytes = 0;
    // The selected units of the shard opened last, and how many of them have been requested. Unused at the lowest
    // level.
    ShardUnits inside;
    std::uint64_t inside_object = 0;
    std::shared_ptr<const OpenShard> inside_shard;
  };

  void look_ahead(Stats& lookups);
  void enqueue(std::size_t level, Stats& lookups);
  bool enqueue_next(std::size_t level, Stats& lookups);
  void enqueue_object();
  void enqueue_inner(std::size_t level, const Level& above, const transfer::Task& task);
  bool open_next(std::size_t level, bool wanted, Stats& lookups);
  Found open_answer(std::size_t level, IndexesAhead::Answer answer, Stats& lookups);
  Status look_inside(std::size_t level, const Found& found);
  static void skip(Level& above, const WantedIndex& name) noexcept;
  enum class Taken : std::uint8_t { kYes, kNotAhead, kInFlight };
  Taken take(std::size_t level, Found& found, Stats& lookups, transfer::LookupListener& listener);

  const Footprint& footprint_;
  const ShardAccess access_;
  const MakeKey make_key_;
  const std::uint64_t max_bytes_;
  std::deque<Level> levels_;
  std::string key_;
  std::uint64_t next_object_;    // the first not yet requested
  std::uint64_t wanted_object_;  // the first that the plan has not yet requested
  std::atomic<bool> cancelled_{false};
};

}  // namespace headrace::zarr
