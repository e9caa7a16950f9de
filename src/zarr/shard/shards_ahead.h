// ShardsAhead: opens the shards of a plan, and those inside them, where each costs a round trip to a user's store.
//
// The plan asks for one after the other, in the order of the footprint and of their bytes. This walks the same way in
// front of it, a level at a time: as far as indexes have come it opens them, and asks for those of what is inside, of
// many shards together. What fails is kept until the plan gets there, so errors come in the plan's order.
//
// Threads: one at a time, but for cancel(): any.
// Fails:   as ShardAccess. What is kept ahead gives way where memory is short: then each is asked for alone.
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

  // Everything outlives it.
  ShardsAhead(ByteStore& store, const Footprint& footprint, const ShardAccess& access, MakeKey make_key);

  // As ShardAccess has them. What has been opened and read, ahead as well, is added to `lookups`. Nothing: it has been
  // asked for, and `listener` is told when it has come; then it is to be opened again, and nothing else before.
  std::optional<Shard> open(std::uint64_t object, Stats& lookups, transfer::LookupListener& listener);
  // Of the unit of `level` that is `task` of that object.
  std::optional<Inner> open_inner(std::uint64_t object, const std::shared_ptr<const OpenShard>& shard,
                                  std::size_t level, const transfer::Task& task, Stats& lookups,
                                  transfer::LookupListener& listener);

  // Nothing is read any more, and nobody waits for long.
  void cancel() noexcept;
  // Gives back the memory of all that is ahead. False: there was nothing.
  bool let_go() noexcept;

 private:
  // Opened, and not yet wanted by the plan.
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
    // What is selected in the last that was opened, and how far that has been asked for. Not of the lowest level.
    ShardUnits inside;
    std::uint64_t inside_object = 0;
    std::shared_ptr<const OpenShard> inside_shard;
  };

  void look_ahead(Stats& lookups);
  void ask(std::size_t level, Stats& lookups);
  bool ask_next(std::size_t level, Stats& lookups);
  void ask_object();
  void ask_inner(std::size_t level, const Level& above, const transfer::Task& task);
  bool open_next(std::size_t level, bool wanted, Stats& lookups);
  Found open_answer(std::size_t level, IndexesAhead::Answer answer, Stats& lookups);
  Status look_inside(std::size_t level, const Found& found);
  static void pass_by(Level& above, const WantedIndex& name) noexcept;
  enum class Taken : std::uint8_t { kYes, kNotAhead, kLater };
  Taken take(std::size_t level, Found& found, Stats& lookups, transfer::LookupListener& listener);

  const Footprint& footprint_;
  const ShardAccess access_;
  const MakeKey make_key_;
  const std::uint64_t most_bytes_;
  std::deque<Level> levels_;
  std::string key_;
  std::uint64_t next_object_;    // the first that has not been asked for
  std::uint64_t wanted_object_;  // the first that the plan has not asked for
  std::atomic<bool> cancelled_{false};
};

}  // namespace headrace::zarr
