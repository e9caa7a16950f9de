#include "zarr/plan/planner.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/access.h"
#include "base/checked.h"
#include "os/file_read.h"
#include "transfer/context/context_impl.h"
#include "transfer/read/chunk_part.h"
#include "zarr/grid/footprint.h"
#include "zarr/shard/shard_units.h"
#include "zarr/shard/shards_ahead.h"

namespace headrace::zarr {
namespace {

using transfer::kNoSource;
using transfer::kWholeObject;
using transfer::LookupListener;
using transfer::More;
using transfer::Task;
using transfer::TaskDetail;
using transfer::TaskGroup;
using transfer::WaveTasks;

// Limit of a group's bytes, whatever the store asks for: one group per worker, together half of the host budget.
std::uint64_t group_bytes_limit(const Array::Impl& array) {
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 20;  // stays in a core's cache
  const transfer::Resources& resources = *Access::impl(array.store.context())->resources;
  const std::uint64_t share = resources.options().host_budget_bytes / 2 / std::max(resources.threads(), 1u);
  return std::min(Access::impl(array.store)->read_shape().max_group_bytes, std::max(kAlways, share));
}

std::shared_ptr<const transfer::ChunkForm> make_form(std::shared_ptr<const codec::Chain> chain,
                                                     const device::ElementOp& op, std::vector<std::byte> fill,
                                                     std::vector<std::byte> damaged) {
  return std::make_shared<const transfer::ChunkForm>(
      transfer::ChunkForm{std::move(chain), op, std::move(fill), std::move(damaged)});
}

class ArrayPlan : public transfer::Plan {
 public:
  // `form`: of all chunks, or of the largest. `parts`: see wants_parts().
  ArrayPlan(std::shared_ptr<const Array::Impl> array, std::shared_ptr<const Footprint> footprint,
            std::shared_ptr<const transfer::ChunkForm> form, bool parts)
      : array_(std::move(array)), footprint_(std::move(footprint)), form_(std::move(form)), parts_(parts) {}

  std::uint64_t chunk_count() const noexcept override { return footprint_->units(); }
  bool wants_parts() const noexcept override { return parts_; }
  store::Store& store() const noexcept override { return *Access::impl(array_->store); }
  const std::shared_ptr<const transfer::ChunkForm>& largest_form() const noexcept override { return form_; }
  bool next_box(TaskDetail& detail) const override { return footprint_->next_box(detail); }
  bool keeps_indices() const noexcept override { return one_form() && array_->index_array != 0; }
  transfer::IndexKey index_key(const TaskGroup& group, const Task& task) const override {
    // A chunk inside a shard is identified by its offset.
    const bool sharded = array_->sharding != nullptr;
    std::array<std::uint64_t, kMaxRank> at;
    footprint_->position(sharded ? group.ordinal : task.ordinal, at.data());
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < array_->grid.size(); ++i) number = number * array_->grid[i] + at[i];
    return {array_->index_array, number, sharded ? task.offset : 0};
  }
  std::shared_ptr<transfer::PlacementPolicy> placement(
      const std::string& kind, const std::shared_ptr<transfer::PlacementPrior>& prior) const override {
    // The policy's measurements apply to chunks of one shape.
    return one_form() ? array_->placement.of(kind, prior) : nullptr;
  }
  std::shared_ptr<transfer::GroupCost> group_cost(bool staged) const override {
    return array_->group_costs[staged ? 1 : 0];
  }

 protected:
  void make_key(std::uint64_t object, std::string& key) const {
    std::array<std::uint64_t, kMaxRank> at;
    footprint_->position(object, at.data());
    key.clear();
    array_->append_prefix(key);
    append_chunk_key(array_->metadata.keys, at.data(), array_->metadata.shape.size(), key);
  }

  const std::shared_ptr<const Array::Impl> array_;
  const std::shared_ptr<const Footprint> footprint_;
  const std::shared_ptr<const transfer::ChunkForm> form_;
  const bool parts_;
};

// Every stored chunk is an object of its own.
class ChunkPlan : public ArrayPlan {
 public:
  using ArrayPlan::ArrayPlan;

  Result<More> fill(WaveTasks& wave, LookupListener&) override {
    wave.form = form_;
    while (next_ != footprint_->end_object() && wave.tasks.size() < wave.max_tasks) emit(wave);
    return more();
  }

  void describe(const TaskGroup&, const Task& task, TaskDetail& detail) const override {
    make_key(task.ordinal, detail.key);
    footprint_->describe(task.ordinal, 0, footprint_->root(task.ordinal), detail);
  }

  std::uint64_t max_group_bytes() const noexcept override { return 0; }

 protected:
  void emit(WaveTasks& wave) {
    TaskGroup group;
    group.first_task = static_cast<std::uint32_t>(wave.tasks.size());
    group.task_count = 1;
    wave.groups.push_back(group);
    wave.tasks.push_back({next_, 0, kWholeObject});
    next_ = footprint_->next_object(next_);
  }
  More more() const { return next_ != footprint_->end_object() ? More::kYes : More::kNo; }

  std::uint64_t next_ = footprint_->first_object();
};

std::vector<std::uint64_t> shape_of(const RectilinearGrid& grid, const Footprint& footprint, std::uint64_t object) {
  std::array<std::uint64_t, kMaxRank> at;
  footprint.position(object, at.data());
  std::vector<std::uint64_t> shape;
  for (std::size_t i = 0; i < grid.axes.size(); ++i) shape.push_back(grid.run_of_chunk(i, at[i]).edge);
  return shape;
}

// The shape of an object with the most elements. REQUIRES: there is an object.
std::vector<std::uint64_t> largest_shape(const RectilinearGrid& grid, const Footprint& footprint) {
  std::vector<std::uint64_t> largest = shape_of(grid, footprint, footprint.first_object());
  if (footprint.largest_first()) return largest;
  const auto elements = [](const std::vector<std::uint64_t>& shape) {
    std::optional<std::uint64_t> all = 1;
    for (const std::uint64_t edge : shape) all = all ? base::checked_mul(*all, edge) : all;
    return all.value_or(~std::uint64_t{0});
  };
  for (std::uint64_t object = footprint.first_object(); object != footprint.end_object();
       object = footprint.shape_end(object)) {
    std::vector<std::uint64_t> shape = shape_of(grid, footprint, object);
    if (elements(shape) > elements(largest)) largest = std::move(shape);
  }
  return largest;
}

// Chunks of several shapes, each decoded by its own chain. Chunks of one shape are handed out one after another.
class RectilinearPlan final : public ChunkPlan {
 public:
  // `form`: of the largest chunks, which have `shape`.
  RectilinearPlan(std::shared_ptr<const Array::Impl> array, std::shared_ptr<const Footprint> footprint,
                  std::shared_ptr<const transfer::ChunkForm> form, bool parts, std::vector<std::uint64_t> shape)
      : ChunkPlan(std::move(array), std::move(footprint), std::move(form), parts), largest_(std::move(shape)) {}

  bool one_form() const noexcept override { return false; }

  Result<std::shared_ptr<const transfer::ChunkForm>> next_form() override {
    if (next_ != form_end_ || next_ == footprint_->end_object()) return current_;
    const std::vector<std::uint64_t> shape = shape_of(*array_->metadata.rectilinear, *footprint_, next_);
    current_ = form_;
    if (shape != largest_) {
      HEADRACE_TRY_ASSIGN(codec::Chain chain, array_->build_chain_for(shape));
      current_ =
          make_form(std::make_shared<const codec::Chain>(std::move(chain)), form_->op, form_->fill, form_->damaged);
    }
    form_end_ = footprint_->shape_end(next_);
    return current_;
  }

  Result<More> fill(WaveTasks& wave, LookupListener&) override {
    wave.form = current_;
    while (next_ != form_end_ && wave.tasks.size() < wave.max_tasks) emit(wave);
    return more();
  }

 private:
  const std::vector<std::uint64_t> largest_;
  std::shared_ptr<const transfer::ChunkForm> current_ = form_;
  std::uint64_t form_end_ = next_;  // one past the objects of current_
};

// Chunks inside shards. Each shard's index is read once, and its chunks are handed out in storage order. Nested shards
// are treated the same way, a few at a time.
class ShardPlan final : public ArrayPlan {
 public:
  // parts: a group is one chunk, of which only the needed part is read. Otherwise neighbours are read together.
  ShardPlan(std::shared_ptr<const Array::Impl> array, std::shared_ptr<const Footprint> footprint,
            std::shared_ptr<const transfer::ChunkForm> form, bool parts)
      : ArrayPlan(std::move(array), std::move(footprint), std::move(form), parts),
        levels_(array_->sharding->grids.size()),
        open_(levels_),
        next_shard_(footprint_->first_object()),
        max_group_bytes_(group_bytes_limit(*array_)) {
    for (ShardUnits& open : open_) open.memory = base::Charge(array_->memory.budget());
    key_.reserve(256);
    if (ByteStore* const ranges = store().ranges()) {
      ahead_ = std::make_unique<ShardsAhead>(*ranges, *footprint_, array_->shard_access(),
                                             [this](std::uint64_t object, std::string& key) { make_key(object, key); });
      for (std::uint64_t object = next_shard_; object != footprint_->end_object() && shards_ < kMaxShards; ++shards_)
        object = footprint_->next_object(object);
    }
  }

  Result<More> fill(WaveTasks& wave, LookupListener& listener) override {
    wave.form = form_;
    while (wave.tasks.size() < wave.max_tasks) {
      if (cursor_ == pending_.size() || waits_) {
        if (!waits_) {
          pending_.clear();
          cursor_ = 0;
        }
        // Neighbours in different inner shards are fetched together, so gather many.
        if (opens_next()) {
          shard_.reset();
          if (!wave.groups.empty() && !os::Descriptors::of_process().room()) return More::kYes;  // the wave ends early
        }
        Status status = gather(std::max(wave.max_tasks, wave.room_tasks), wave.lookups, listener);
        if (waits_) return More::kAfterLookups;
        sort_by_offset(pending_);
        if (!status.ok()) {
          if (os::is_shortage(status.system_error()) && !wave.groups.empty()) return More::kYes;
          if (status.code() == Code::kResourceExhausted) return status;
          emit_failure(wave, std::move(status));
          continue;
        }
        if (pending_.empty()) return More::kNo;
      }
      if (!emit_groups(wave)) return More::kYes;
    }
    if (opens_next()) shard_.reset();  // the waves hold what they need of it, and release it last
    const bool more = cursor_ < pending_.size() || open_.front().left() || next_shard_ != footprint_->end_object();
    return more ? More::kYes : More::kNo;
  }

  bool opens_next() const noexcept override { return cursor_ == pending_.size() && !open_.front().left(); }

  void cancel() noexcept override {
    if (ahead_ != nullptr) ahead_->cancel();
  }

  void describe(const TaskGroup& group, const Task& task, TaskDetail& detail) const override {
    detail.key.clear();
    footprint_->describe(group.ordinal, static_cast<std::size_t>(task.ordinal >> kLevelShift),
                         task.ordinal & (kMaxUnitsPerShard - 1), detail);
  }

  std::uint64_t max_group_bytes() const noexcept override { return max_group_bytes_; }

 private:
  static constexpr std::size_t kIndexesAhead = 128;
  static constexpr std::uint64_t kSmallGap = 16 << 10, kMaxShards = 1024;

  // Appends tasks of one object to pending_: all that are left of it, or as many as are worth sorting. If this sets
  // waits_, the next call continues where this one stopped.
  Status gather(std::size_t enough, Stats& lookups, LookupListener& listener) {
    for (bool goes_on = std::exchange(waits_, false); pending_.empty() || goes_on; goes_on = false) {
      if (!open_.front().left()) {
        if (next_shard_ == footprint_->end_object()) return {};
        shard_object_ = next_shard_;
        next_shard_ = footprint_->next_object(next_shard_);
        make_key(shard_object_, key_);
        std::optional opened = ahead_ != nullptr ? ahead_->open(shard_object_, lookups, listener)
                                                 : std::optional(array_->shard_access().open(key_, lookups));
        waits_ = !opened.has_value();
        // The next call tries this shard again.
        if (waits_ || os::is_shortage(opened->status().system_error())) next_shard_ = shard_object_;
        if (waits_) return {};
        HEADRACE_TRY_ASSIGN(shard_, std::move(*opened));
        const std::uint64_t root = footprint_->root(shard_object_);
        if (shard_ == nullptr) {
          pending_.push_back({ordinal_of(0, root), 0, 0});
          return {};
        }
        HEADRACE_TRY(open_level(0, root, shard_->entries));
      }
      HEADRACE_TRY(descend(0, enough, lookups, listener));
      if (waits_) return {};
    }
    return {};
  }

  // Lists the selected chunks of a unit of `level`, given its index: in pending_ or in open_[level].
  Status open_level(std::size_t level, std::uint64_t unit, const std::vector<ShardEntry>& index) {
    // Chunks of the lowest level are handed out directly.
    const bool lowest = level + 1 == levels_;
    ShardUnits& open = open_[level];
    std::vector<Task>& tasks = lowest ? pending_ : open.tasks;
    Status status = open.list(*footprint_, shard_object_, level, unit, index, tasks);
    if (status.code() == Code::kResourceExhausted && ahead_ != nullptr && ahead_->drop_all()) {
      status = open.list(*footprint_, shard_object_, level, unit, index, tasks);
    }
    HEADRACE_TRY(std::move(status));
    if (!lowest) sort_by_offset(tasks);
    return {};
  }

  // Moves the chunks in the shards of open_[level] to pending_ until it has enough.
  Status descend(std::size_t level, std::size_t enough, Stats& lookups, LookupListener& listener) {
    ShardUnits& open = open_[level];
    while (open.left() && pending_.size() < enough && !waits_) {
      if (!open_[level + 1].left()) {
        const Task& task = open.tasks[open.cursor];
        if (task.length == 0) {
          pending_.push_back(task);  // absent with everything inside it
          ++open.cursor;
          continue;
        }
        if (open.cursor % kIndexesAhead == 0) prefetch_indexes(level + 1, open);
        // A failure is reported once; the next call continues after it.
        const auto index = open_inner(level + 1, task, lookups, listener);
        waits_ = !index.has_value();
        if (waits_) return {};
        if (!index->ok()) {
          failed_ = task.ordinal;
          ++open.cursor;
          return index->status();
        }
        HEADRACE_TRY(open_level(level + 1, unit_of(task), ***index));
      }
      Status status = descend(level + 1, enough, lookups, listener);
      if (!open_[level + 1].left()) ++open.cursor;
      HEADRACE_TRY(std::move(status));
    }
    return {};
  }

  std::optional<Result<std::shared_ptr<const InnerIndex>>> open_inner(std::size_t level, const Task& task,
                                                                      Stats& lookups, LookupListener& listener) {
    if (ahead_ != nullptr) return ahead_->open_inner(shard_object_, shard_, level, task, lookups, listener);
    return array_->shard_access().open_inner(*shard_, level, {task.offset, task.length}, lookups);
  }

  // If each index costs a disk access, asks for the next ones together.
  void prefetch_indexes(std::size_t level, const ShardUnits& open) const {
    const store::ByteSource& object = *shard_->object;
    if (!object.offers(store::Offer::kFile) || open.tasks.size() < 2) return;
    const ShardIndexFormat& format = array_->sharding->indexes[level];
    for (std::size_t i = open.cursor; i < std::min(open.tasks.size(), open.cursor + kIndexesAhead); ++i) {
      const Task& task = open.tasks[i];
      const auto position = format.position(task.length);
      if (task.length != 0 && position.ok()) {
        os::want_cached(object.file().fd, object.file().begin + task.offset + *position, format.encoded_bytes());
      }
    }
  }

  // A shard of any level that cannot be used is one failed task, like a bad chunk; the others are read.
  void emit_failure(WaveTasks& wave, Status status) {
    const std::uint64_t ordinal = failed_ != 0 ? failed_ : ordinal_of(0, footprint_->root(shard_object_));
    failed_ = 0;
    emit_failed_task(wave, {ordinal, 0, kWholeObject}, std::make_shared<const std::string>(key_), std::move(status));
  }

  void emit_failed_task(WaveTasks& wave, const Task& task, std::shared_ptr<const std::string> key, Status status) {
    TaskGroup group;
    group.ordinal = shard_object_;
    group.offset = task.offset;
    group.length = task.length;
    group.first_task = static_cast<std::uint32_t>(wave.tasks.size());
    group.task_count = 1;
    group.source = static_cast<std::uint32_t>(wave.sources.size());
    wave.sources.push_back({nullptr, std::move(key), std::move(status)});
    wave.tasks.push_back(task);
    wave.groups.push_back(group);
  }

  // Checks the length in the index against the metadata before anything is read or allocated for it. A chunk that fails
  // gets its own group, so that its neighbours are still read.
  bool fits(const Task& task) const noexcept {
    return task.length == 0 || form_->chain->accepts_encoded_size(task.length);
  }
  void emit_misfit(WaveTasks& wave, const Task& task) {
    emit_failed_task(
        wave, task, {shard_, &shard_->key},
        form_->chain->check_encoded_size(task.length).with_key(shard_->key).with_range(task.offset, task.length));
  }

  // Moves tasks from pending_ into groups until the wave is full or the shard is finished. If repeated requests for the
  // same ranges are served faster (`steady`), a group ends where chunks and gaps demand, not where the wave ends,
  // provided a wave has room for it. False: the next group does not fit into this wave.
  bool emit_groups(WaveTasks& wave) {
    std::uint32_t source = kNoSource;
    if (shard_ != nullptr) {
      source = static_cast<std::uint32_t>(wave.sources.size());
      wave.sources.push_back({shard_->object, {shard_, &shard_->key}, {}, shard_});
    }
    const base::ReadShape shape = store().read_shape();
    const std::size_t share = share_of(shape);
    while (cursor_ < pending_.size() && wave.tasks.size() < wave.max_tasks) {
      if (!fits(pending_[cursor_])) {
        emit_misfit(wave, pending_[cursor_++]);
        continue;
      }
      TaskGroup group;
      group.ordinal = shard_object_;
      group.source = source;
      group.first_task = static_cast<std::uint32_t>(wave.tasks.size());
      group.offset = pending_[cursor_].offset;
      std::uint64_t end = group.offset;
      const bool absent = pending_[cursor_].length == 0, steady = shape.steady && !absent;
      const std::size_t most = steady ? std::max(wave.max_tasks, wave.room_tasks) : wave.max_tasks;
      while (cursor_ < pending_.size() && wave.tasks.size() < most) {
        const Task& task = pending_[cursor_];
        if ((task.length == 0) != absent || !fits(task)) break;
        if (group.task_count > 0 && !absent && !joins(task, group, end, shape, share)) break;
        end = std::max(end, task.offset + task.length);
        wave.tasks.push_back(task);
        ++group.task_count;
        ++cursor_;
      }
      if (steady && !wave.groups.empty() && (wave.tasks.size() > wave.max_tasks || is_cut(group, end, shape, share))) {
        if (wave.sources.size() == source + 1 && wave.groups.back().source != source) wave.sources.pop_back();
        wave.tasks.resize(group.first_task);
        cursor_ -= group.task_count;
        return false;
      }
      group.length = absent ? 0 : end - group.offset;
      wave.groups.push_back(group);
    }
    return true;
  }

  // How many pending chunks form a group's share: as many as leave each connection a request if all shards of the read
  // have as many chunks. Beyond it only small gaps are bridged, see joins().
  std::size_t share_of(const base::ReadShape& shape) const {
    const std::uint64_t requests = shape.steady ? 0 : shape.requests / std::max<std::uint64_t>(shards_, 1);
    return requests < 2 ? pending_.size() : static_cast<std::size_t>(base::ceil_div(pending_.size(), requests));
  }
  // Whether a chunk is fetched together with the group, which ends at `end`. Once the group has its share, only small
  // gaps are bridged: a request that no worker waits for costs no more than such a gap.
  bool joins(const Task& task, const TaskGroup& group, std::uint64_t end, const base::ReadShape& shape,
             std::size_t share) const {
    const std::uint64_t task_end = std::max(end, task.offset + task.length);
    const std::uint64_t max_gap = group.task_count < share ? shape.gap_bytes : std::min(kSmallGap, shape.gap_bytes);
    return !wants_parts() && (task.offset <= end || task.offset - end <= max_gap) &&
           task_end - group.offset <= std::min(shape.group_bytes, max_group_bytes_);
  }
  // Whether the next pending chunk would join the group if the wave had room for it.
  bool is_cut(const TaskGroup& group, std::uint64_t end, const base::ReadShape& shape, std::size_t share) const {
    if (cursor_ == pending_.size()) return false;
    const Task& next = pending_[cursor_];
    return next.length != 0 && fits(next) && joins(next, group, end, shape, share);
  }

  const std::size_t levels_;
  std::vector<ShardUnits> open_;  // by level: one shard's chunks; each shard is a chunk of the one before
  std::uint64_t next_shard_;
  const std::uint64_t max_group_bytes_;
  std::uint64_t shards_ = 0;            // shards of the read, at most kMaxShards; 0: not counted, as they are files
  std::unique_ptr<ShardsAhead> ahead_;  // null: opening a shard costs no round trip
  // The shard being handed out
  std::uint64_t shard_object_ = 0;
  std::shared_ptr<const OpenShard> shard_;
  std::string key_;
  std::uint64_t failed_ = 0;  // ordinal of the inner shard that failed to open; 0: the object failed
  std::vector<Task> pending_;
  std::size_t cursor_ = 0;
  bool waits_ = false;  // for an index; pending_ is incomplete and unsorted
};

// What all selections of a read share: the array's grid and its levels of shards.
FootprintInput layout_of(const Array::Impl& array, const ReadConversion& conversion) {
  FootprintInput input;
  input.element_bytes = conversion.op.element_bytes;
  input.object_shape = array.metadata.chunk_shape;
  input.object_grid = array.grid;
  if (array.sharding != nullptr) input.levels = array.sharding->grids;
  input.src_strides = array.unit_strides();
  input.rectilinear = array.metadata.rectilinear;
  if (input.rectilinear != nullptr) input.axis_order = array.unit_chain().layout().axis_order;
  return input;
}

FootprintInput input_of(const Array::Impl& array, const ResolvedSelection& selection, const TensorView& tensor,
                        const ReadConversion& conversion) {
  FootprintInput input = layout_of(array, conversion);
  input.selection = &selection;
  input.dst = tensor.memory;
  input.dst_first = tensor.first_byte;
  input.dst_strides = tensor.strides_bytes;
  return input;
}

// Whether so few elements are selected that parts of chunks should be read. `elements`: the number selected. `kept`: a
// cache holds ranges by where they begin and end; other selections find single chunks there, but not groups.
bool few_wanted(const codec::Chain& chain, std::uint64_t units, std::uint64_t elements, std::uint32_t element_bytes,
                bool kept) {
  // Smaller chunks are better read together with their neighbours.
  const std::uint64_t least = 2 * transfer::min_part_chunk_bytes.load(std::memory_order_relaxed);
  const bool divides = chain.raw() || chain.part_table_bytes() != 0;
  if ((!divides && !kept) || chain.decoded_bytes() < least) return false;
  return base::saturating_mul(elements, element_bytes) / 3 <= base::saturating_mul(units, chain.decoded_bytes()) / 4;
}

std::uint64_t elements_of(const TensorView& tensor) {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : tensor.shape) elements = base::saturating_mul(elements, extent);
  return elements;
}

Result<std::unique_ptr<transfer::Plan>> plan_of(std::shared_ptr<const Array::Impl> array,
                                                std::shared_ptr<const Footprint> footprint, std::uint64_t elements,
                                                ReadConversion conversion) {
  const std::shared_ptr<const RectilinearGrid> grid = array->metadata.rectilinear;
  const bool by_shape = grid != nullptr && footprint->units() > 0;
  // Does not share ownership: a holder of the form must not keep the Context alive.
  std::shared_ptr<const codec::Chain> chain(std::shared_ptr<void>(), &array->unit_chain());
  std::vector<std::uint64_t> largest;
  if (by_shape) {
    largest = largest_shape(*grid, *footprint);
    HEADRACE_TRY_ASSIGN(codec::Chain built, array->build_chain_for(largest));
    chain = std::make_shared<const codec::Chain>(std::move(built));
  }
  auto form = make_form(std::move(chain), conversion.op, std::move(conversion.fill), std::move(conversion.damaged));
  const bool kept = array->sharding != nullptr && Access::impl(array->store)->read_shape().steady;
  const bool parts = few_wanted(*form->chain, footprint->units(), elements, conversion.op.element_bytes, kept);
  std::unique_ptr<transfer::Plan> plan;
  if (by_shape) {
    plan = std::make_unique<RectilinearPlan>(std::move(array), std::move(footprint), std::move(form), parts,
                                             std::move(largest));
  } else if (array->sharding != nullptr) {
    plan = std::make_unique<ShardPlan>(std::move(array), std::move(footprint), std::move(form), parts);
  } else {
    plan = std::make_unique<ChunkPlan>(std::move(array), std::move(footprint), std::move(form), parts);
  }
  return plan;
}

}  // namespace

Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array,
                                                  const ResolvedSelection& selection, const TensorView& tensor,
                                                  ReadConversion conversion) {
  HEADRACE_TRY_ASSIGN(auto footprint, make_footprint(input_of(*array, selection, tensor, conversion)));
  return plan_of(std::move(array), std::move(footprint), elements_of(tensor), std::move(conversion));
}

Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array, std::size_t count,
                                                  const PlanPartAt& part_at, ReadConversion conversion) {
  PlanPart part;
  std::uint64_t elements = 0;
  const auto input_at = [&](std::size_t number, FootprintInput& input) -> Status {
    HEADRACE_TRY(part_at(number, part));
    input = input_of(*array, part.selection, part.tensor, conversion);
    elements += elements_of(part.tensor);
    return {};
  };
  HEADRACE_TRY_ASSIGN(auto footprint, make_merged_footprint(layout_of(*array, conversion), count, input_at));
  return plan_of(std::move(array), std::move(footprint), elements, std::move(conversion));
}

}  // namespace headrace::zarr
