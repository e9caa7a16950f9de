// ShardUnits: the selected chunks of one shard at some level.
#pragma once

#include <headrace/status.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory_budget.h"
#include "transfer/plan/plan.h"
#include "zarr/grid/footprint.h"
#include "zarr/shard/chain_builder.h"
#include "zarr/shard/shard_index.h"

namespace headrace::zarr {

inline constexpr unsigned kLevelShift = 56;  // a task's ordinal: the unit's level in the bits above, its number below
static_assert(kMaxUnitsPerShard == std::uint64_t{1} << kLevelShift);

inline std::uint64_t ordinal_of(std::size_t level, std::uint64_t unit) {
  return static_cast<std::uint64_t>(level) << kLevelShift | unit;
}
inline std::uint64_t unit_of(const transfer::Task& task) { return task.ordinal & (kMaxUnitsPerShard - 1); }

inline void sort_by_offset(std::vector<transfer::Task>& tasks) {
  std::sort(tasks.begin(), tasks.end(),
            [](const transfer::Task& a, const transfer::Task& b) { return a.offset < b.offset; });
}

struct ShardUnits {
  std::vector<Footprint::Unit> units;
  std::vector<transfer::Task> tasks;  // their positions, in the order of `units`
  std::size_t cursor = 0;
  base::Charge memory;
  bool left() const { return cursor < tasks.size(); }

  // Appends to `out` (`tasks` or another list) the selected chunks of a unit of `level`, given the unit's index.
  Status list(const Footprint& footprint, std::uint64_t object, std::size_t level, std::uint64_t unit,
              const std::vector<ShardEntry>& index, std::vector<transfer::Task>& out) {
    units.clear();
    tasks.clear();
    cursor = 0;
    // Covers both lists while they grow.
    const std::uint64_t most = std::min<std::uint64_t>(index.size(), footprint.units());
    HEADRACE_TRY(
        memory.grow_to(most * 2 * (sizeof(Footprint::Unit) + sizeof(transfer::Task)), "the chunks of a shard"));
    footprint.children(object, level, unit, units);
    const std::size_t before = out.size();
    out.resize(before + units.size());
    transfer::Task* task = out.data() + before;
    for (const Footprint::Unit& child : units) {
      const ShardEntry& entry = index[static_cast<std::size_t>(child.entry)];
      *task++ = {ordinal_of(level + 1, child.number), entry.offset, entry.length};
    }
    return {};
  }
};

}  // namespace headrace::zarr
