#include "zarr/shard/shards_ahead.h"

#include <algorithm>
#include <utility>

#include "zarr/shard/shard_cache.h"

namespace headrace::zarr {
namespace {

Status cancelled() { return Status(Code::kCancelled, Layer::kZarr, "the read was cancelled"); }

}  // namespace

ShardsAhead::ShardsAhead(ByteStore& store, const Footprint& footprint, const ShardAccess& access, MakeKey make_key)
    : footprint_(footprint),
      access_(access),
      make_key_(std::move(make_key)),
      max_bytes_(IndexesAhead::max_bytes(access.cache.budget().get())),
      next_object_(footprint.first_object()),
      wanted_object_(next_object_) {
  for (const ShardIndexFormat& format : access.formats) {
    levels_.emplace_back(store, format, footprint.units(), access.cache.budget());
  }
  key_.reserve(256);
}

std::optional<ShardsAhead::Shard> ShardsAhead::open(std::uint64_t object, Stats& lookups,
                                                    transfer::LookupListener& listener) {
  next_object_ = std::max(next_object_, object);
  Found found{{object, 0}, Status::out_of_memory(), Status::out_of_memory()};
  const Taken taken = take(0, found, lookups, listener);
  if (taken == Taken::kInFlight) return std::nullopt;
  wanted_object_ = footprint_.next_object(object);
  next_object_ = std::max(next_object_, wanted_object_);
  if (taken == Taken::kYes) return std::move(found.shard);
  if (cancelled_) return cancelled();
  make_key_(object, key_);
  Shard alone = access_.open(key_, lookups);
  if (alone.status().code() == Code::kResourceExhausted && drop_all()) alone = access_.open(key_, lookups);
  return alone;
}

std::optional<ShardsAhead::Inner> ShardsAhead::open_inner(std::uint64_t object,
                                                          const std::shared_ptr<const OpenShard>& shard,
                                                          std::size_t level, const transfer::Task& task, Stats& lookups,
                                                          transfer::LookupListener& listener) {
  const ShardEntry range{task.offset, task.length};
  Found found{{object, unit_of(task), shard, range}, Status::out_of_memory(), Status::out_of_memory()};
  const Taken taken = take(level, found, lookups, listener);
  if (taken == Taken::kInFlight) return std::nullopt;
  if (taken == Taken::kYes) return std::move(found.inner);
  if (cancelled_) return cancelled().with_key(shard->key);
  Inner alone = access_.open_inner(*shard, level, range, lookups);
  if (alone.status().code() == Code::kResourceExhausted && drop_all()) {
    alone = access_.open_inner(*shard, level, range, lookups);
  }
  return alone;
}

void ShardsAhead::cancel() noexcept {
  cancelled_ = true;
  for (Level& level : levels_) level.reads.cancel();
}

bool ShardsAhead::drop_all() noexcept {
  bool dropped = false;
  for (Level& level : levels_) {
    dropped = level.reads.drop_all() || dropped || !level.found.empty();
    level.found.clear();
    level.found_bytes = 0;
    level.inside.units = {};
    level.inside.tasks = {};
    level.inside.cursor = 0;
    level.inside.memory.give_all();
    level.inside_shard.reset();
  }
  next_object_ = wanted_object_;
  return dropped;
}

// Replaces `found`, given its name, by what the plan wants next, if that was read ahead.
ShardsAhead::Taken ShardsAhead::take(std::size_t level, Found& found, Stats& lookups,
                                     transfer::LookupListener& listener) {
  look_ahead(lookups);
  Level& here = levels_[level];
  if (here.found.empty() && here.reads.has_pending() && here.reads.next().is(found.name)) {
    if (!here.reads.is_ready_or_notify(listener)) return Taken::kInFlight;
    (void)open_next(level, true, lookups);
  }
  if (here.found.empty() || !here.found.front().name.is(found.name)) {
    if (level > 0) skip(levels_[level - 1], found.name);
    return Taken::kNotAhead;
  }
  found = std::move(here.found.front());
  here.found.pop_front();
  here.found_bytes -= found.bytes;
  return Taken::kYes;
}

// The plan opens this unit itself, so it must not be requested here afterwards.
void ShardsAhead::skip(Level& above, const WantedIndex& name) noexcept {
  ShardUnits& inside = above.inside;
  while (inside.left() && inside.tasks[inside.cursor].length == 0) ++inside.cursor;
  if (!inside.left() || above.inside_shard != name.shard || unit_of(inside.tasks[inside.cursor]) != name.unit) return;
  ++inside.cursor;
}

// The deepest level first: it may open shards of the level above, which requests that level's indexes.
void ShardsAhead::look_ahead(Stats& lookups) {
  for (std::size_t level = levels_.size(); level-- > 0;) enqueue(level, lookups);
}

void ShardsAhead::enqueue(std::size_t level, Stats& lookups) {
  for (std::size_t room = levels_[level].reads.wanted(); room > 0 && enqueue_next(level, lookups);) --room;
  levels_[level].reads.start();
}

// Requests the next index of that level. False: its position is not known yet, or there is none.
bool ShardsAhead::enqueue_next(std::size_t level, Stats& lookups) {
  if (level == 0) {
    if (next_object_ == footprint_.end_object()) return false;
    enqueue_object();
    return true;
  }
  Level& above = levels_[level - 1];
  for (;;) {
    while (above.inside.left()) {
      const transfer::Task& task = above.inside.tasks[above.inside.cursor];
      if (task.length != 0) enqueue_inner(level, above, task);
      ++above.inside.cursor;
      if (task.length != 0) return true;
    }
    if (!open_next(level - 1, false, lookups)) return false;
  }
}

void ShardsAhead::enqueue_object() {
  make_key_(next_object_, key_);
  WantedIndex index{next_object_, 0};
  if (access_.reads_index_of(key_)) {
    levels_[0].reads.enqueue(std::move(index), key_);
  } else {
    levels_[0].reads.enqueue_without_read(std::move(index));
  }
  next_object_ = footprint_.next_object(next_object_);
}

void ShardsAhead::enqueue_inner(std::size_t level, const Level& above, const transfer::Task& task) {
  const ShardEntry range{task.offset, task.length};
  WantedIndex index{above.inside_object, unit_of(task), above.inside_shard, range};
  const Result<std::uint64_t> position = access_.formats[level].position(task.length);
  // A shard too short for an index is reported when it is opened.
  if (position.ok() && access_.cache.find(*above.inside_shard, level, range) == nullptr) {
    levels_[level].reads.enqueue(std::move(index), task.offset + *position);
  } else {
    levels_[level].reads.enqueue_without_read(std::move(index));
  }
}

// Opens the shard whose index was requested first. False: there is none; or, unless `wanted` by the plan now, its index
// has not arrived or enough shards are open.
bool ShardsAhead::open_next(std::size_t level, bool wanted, Stats& lookups) {
  Level& here = levels_[level];
  if (!wanted) {
    if (here.found.size() >= IndexesAhead::kMax || here.found_bytes >= max_bytes_) return false;
    enqueue(level, lookups);
    if (!here.reads.has_pending() || !here.reads.is_ready()) return false;
  }
  here.inside.tasks.clear();
  here.inside.cursor = 0;
  IndexesAhead::Answer answer = here.reads.take();
  const bool good = answer.read == nullptr || answer.read->status.ok();
  Found found = open_answer(level, std::move(answer), lookups);
  const Status& status = level == 0 ? found.shard.status() : found.inner.status();
  bool short_of_memory = good && status.code() == Code::kResourceExhausted;
  if (status.ok() && level + 1 < levels_.size()) {
    short_of_memory = look_inside(level, found).code() == Code::kResourceExhausted;
  }
  if (short_of_memory) {  // the plan opens it on demand
    (void)drop_all();
    return false;
  }
  here.found_bytes += found.bytes;
  here.found.push_back(std::move(found));
  return true;
}

ShardsAhead::Found ShardsAhead::open_answer(std::size_t level, IndexesAhead::Answer answer, Stats& lookups) {
  Found found{std::move(answer.index), Status::out_of_memory(), Status::out_of_memory()};
  if (level == 0) {
    make_key_(found.name.object, key_);
    found.shard = access_.open(key_, lookups, answer.read);
    if (found.shard.ok() && *found.shard != nullptr) found.bytes = (*found.shard)->entries.size() * sizeof(ShardEntry);
  } else {
    found.inner = access_.open_inner(*found.name.shard, level, found.name.range, lookups, answer.read);
    if (found.inner.ok()) found.bytes = (*found.inner)->size() * sizeof(ShardEntry);
  }
  return found;
}

Status ShardsAhead::look_inside(std::size_t level, const Found& found) {
  Level& here = levels_[level];
  here.inside_shard = level == 0 ? *found.shard : found.name.shard;
  here.inside_object = found.name.object;
  const std::vector<ShardEntry>* const index = level > 0                      ? &**found.inner
                                               : here.inside_shard != nullptr ? &here.inside_shard->entries
                                                                              : nullptr;
  if (index == nullptr) return {};  // the shard does not exist
  const std::uint64_t unit = level == 0 ? footprint_.root(found.name.object) : found.name.unit;
  HEADRACE_TRY(here.inside.list(footprint_, found.name.object, level, unit, *index, here.inside.tasks));
  sort_by_offset(here.inside.tasks);
  return {};
}

}  // namespace headrace::zarr
