#include "zarr/planner.h"

#include <algorithm>
#include <array>

#include "zarr/projection.h"

namespace headrace::zarr {
namespace {

using transfer::Group;
using transfer::kNoSource;
using transfer::kWholeObject;
using transfer::Task;
using transfer::TaskDetail;
using transfer::WaveTasks;

constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{1} << 20;  // a coalesced read stays in a core's cache
constexpr std::uint64_t kMaxGapBytes = std::uint64_t{16} << 10;   // cheaper to read than to ask again
constexpr std::uint64_t kWholeShard = ~std::uint64_t{0};          // task ordinal: all of a missing shard

class ArrayPlan : public transfer::Plan {
 public:
  ArrayPlan(std::shared_ptr<const Array::Impl> array, const ResolvedSelection& selection, const TensorView& tensor)
      : array_(std::move(array)), rank_(selection.dims.size()), data_(tensor.data) {
    std::size_t kept = 0;
    units_ = 1;
    for (std::size_t i = 0; i < rank_; ++i) {
      projections_.emplace_back(selection.dims[i], array_->unit_shape()[i]);
      dst_strides_.push_back(selection.dims[i].dropped ? 0 : tensor.strides_bytes[kept]);
      kept += selection.dims[i].dropped ? 0 : 1;
      units_ *= projections_.back().touched();
    }
  }

  std::uint64_t chunk_count() const noexcept override { return units_; }
  store::Store& store() const noexcept override { return *array_->store.impl(); }
  const codec::Chain& chain() const noexcept override { return array_->unit_chain(); }
  const device::ElementOp& element_op() const noexcept override { return array_->element_op; }
  const std::byte* fill_element() const noexcept override { return array_->fill.data(); }
  std::shared_ptr<transfer::PlacementPolicy> placement(const std::string& device) const override {
    return array_->placement.for_device(device);
  }

 protected:
  // The part of the selection that lies in the span of elements [begin[i], begin[i] + length[i]) of each axis.
  void make_box(const std::uint64_t* begin, const std::uint64_t* length, TaskDetail& detail) const {
    device::Box& box = detail.box;
    const std::vector<std::int64_t>& strides = chain().strides_bytes();
    box.rank = static_cast<int>(rank_);
    std::int64_t src = 0, dst = 0;
    bool whole = true;
    for (std::size_t i = 0; i < rank_; ++i) {
      const Intersection part = projections_[i].intersect(begin[i], length[i]);
      box.dim[i] = {part.count, strides[i] * static_cast<std::int64_t>(projections_[i].step()), dst_strides_[i]};
      src += strides[i] * static_cast<std::int64_t>(part.in_chunk);
      dst += dst_strides_[i] * static_cast<std::int64_t>(part.in_result);
      whole = whole && part.count == length[i];
    }
    box.src = transfer::kBoxBase + src;
    box.dst = data_ + dst;
    device::simplify(box);
    detail.whole_chunk = whole && device::is_contiguous(box, element_op().element_bytes);
  }

  const std::shared_ptr<const Array::Impl> array_;
  const std::size_t rank_;
  std::byte* const data_;
  std::vector<Projection> projections_;    // onto the grid of units
  std::vector<std::int64_t> dst_strides_;  // one per array axis, 0 where dropped
  std::uint64_t units_ = 0;
};

// Every stored chunk is an object of its own.
class ChunkPlan final : public ArrayPlan {
 public:
  using ArrayPlan::ArrayPlan;

  Result<bool> fill(WaveTasks& wave) override {
    while (next_ < units_ && wave.tasks.size() < wave.max_tasks) {
      Group group;
      group.first_task = static_cast<std::uint32_t>(wave.tasks.size());
      group.task_count = 1;
      wave.groups.push_back(group);
      wave.tasks.push_back({next_++, 0, kWholeObject});
    }
    return next_ < units_;
  }

  void describe(const Group&, const Task& task, TaskDetail& detail) const override {
    std::array<std::uint64_t, kMaxRank> chunk, begin;
    std::uint64_t rest = task.ordinal;
    for (std::size_t i = rank_; i-- > 0;) {
      const std::uint64_t touched = projections_[i].touched();
      chunk[i] = projections_[i].chunk_at(rest % touched);
      rest /= touched;
      begin[i] = chunk[i] * array_->metadata.chunk_shape[i];
    }
    detail.key.clear();
    array_->append_prefix(detail.key);
    append_chunk_key(array_->metadata.keys, chunk.data(), rank_, detail.key);
    make_box(begin.data(), array_->metadata.chunk_shape.data(), detail);
  }

  std::uint64_t max_group_bytes() const noexcept override { return 0; }

 private:
  std::uint64_t next_ = 0;
};

// Chunks lie inside shards: each shard's index is read once, its chunks in the order in which they lie.
class ShardPlan final : public ArrayPlan {
 public:
  ShardPlan(std::shared_ptr<const Array::Impl> array, const ResolvedSelection& selection, const TensorView& tensor)
      : ArrayPlan(std::move(array), selection, tensor) {
    shards_ = 1;
    for (std::size_t i = 0; i < rank_; ++i) {
      shard_projections_.emplace_back(selection.dims[i], array_->metadata.chunk_shape[i]);
      shards_ *= shard_projections_.back().touched();
      if (units_ == 0) shards_ = 0;
    }
    key_.reserve(256);
  }

  Result<bool> fill(WaveTasks& wave) override {
    while (wave.tasks.size() < wave.max_tasks) {
      if (cursor_ == pending_.size()) {
        if (next_shard_ == shards_) return false;
        if (Status status = load_shard(next_shard_++); !status.ok()) {
          if (status.code() == Code::kResourceExhausted) return status;
          emit_failure(wave, std::move(status));
          continue;
        }
      }
      emit_groups(wave);
    }
    return cursor_ < pending_.size() || next_shard_ < shards_;
  }

  void describe(const Group& group, const Task& task, TaskDetail& detail) const override {
    std::array<std::uint64_t, kMaxRank> shard, begin;
    shard_at(group.ordinal, shard.data());
    const std::vector<std::uint64_t>& shard_shape = array_->metadata.chunk_shape;
    detail.key.clear();
    if (task.ordinal == kWholeShard) {
      for (std::size_t i = 0; i < rank_; ++i) begin[i] = shard[i] * shard_shape[i];
      make_box(begin.data(), shard_shape.data(), detail);
      return;
    }
    std::uint64_t rest = task.ordinal;
    for (std::size_t i = rank_; i-- > 0;) {
      const std::uint64_t inner = rest % array_->sharding->inner_grid[i];
      rest /= array_->sharding->inner_grid[i];
      begin[i] = shard[i] * shard_shape[i] + inner * array_->sharding->inner_shape[i];
    }
    make_box(begin.data(), array_->sharding->inner_shape.data(), detail);
  }

  std::uint64_t max_group_bytes() const noexcept override { return kMaxGroupBytes; }

 private:
  void shard_at(std::uint64_t ordinal, std::uint64_t* shard) const {
    for (std::size_t i = rank_; i-- > 0;) {
      const std::uint64_t touched = shard_projections_[i].touched();
      shard[i] = shard_projections_[i].chunk_at(ordinal % touched);
      ordinal /= touched;
    }
  }

  // Lists the selected chunks of one shard in pending_, by position in the file.
  Status load_shard(std::uint64_t ordinal) {
    pending_.clear();
    cursor_ = 0;
    shard_ordinal_ = ordinal;
    std::array<std::uint64_t, kMaxRank> shard;
    shard_at(ordinal, shard.data());
    key_.clear();
    array_->append_prefix(key_);
    append_chunk_key(array_->metadata.keys, shard.data(), rank_, key_);
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < rank_; ++i) number = number * array_->grid[i] + shard[i];
    HEADRACE_TRY_ASSIGN(shard_, array_->open_shard(key_, number));
    if (shard_ == nullptr) {
      pending_.push_back({kWholeShard, 0, 0});
      return {};
    }
    // Along each axis: the inner chunks of this shard that hold selected elements.
    const Sharding& sharding = *array_->sharding;
    touched_.resize(rank_);
    for (std::size_t i = 0; i < rank_; ++i) {
      touched_[i].clear();
      const std::uint64_t first = shard[i] * sharding.inner_grid[i];
      for (std::uint64_t inner = 0; inner < sharding.inner_grid[i]; ++inner) {
        if (projections_[i].intersect(first + inner).count > 0) touched_[i].push_back(inner);
      }
      if (touched_[i].empty()) return {};
    }
    std::array<std::size_t, kMaxRank> at{};
    for (;;) {
      std::uint64_t inner = 0;
      for (std::size_t i = 0; i < rank_; ++i) inner = inner * sharding.inner_grid[i] + touched_[i][at[i]];
      const ShardEntry& entry = shard_->entries[static_cast<std::size_t>(inner)];
      pending_.push_back({inner, entry.offset, entry.length});
      std::size_t axis = rank_;
      while (axis > 0 && ++at[axis - 1] == touched_[axis - 1].size()) at[--axis] = 0;
      if (axis == 0) break;
    }
    std::sort(pending_.begin(), pending_.end(), [](const Task& a, const Task& b) { return a.offset < b.offset; });
    return {};
  }

  // A shard that cannot be used is one task that fails, like a bad chunk: the others are read.
  void emit_failure(WaveTasks& wave, Status status) {
    Group group;
    group.ordinal = shard_ordinal_;
    group.first_task = static_cast<std::uint32_t>(wave.tasks.size());
    group.task_count = 1;
    group.source = static_cast<std::uint32_t>(wave.sources.size());
    wave.sources.push_back({nullptr, std::make_shared<const std::string>(key_), std::move(status)});
    wave.tasks.push_back({kWholeShard, 0, kWholeObject});
    wave.groups.push_back(group);
  }

  // Moves tasks from pending_ into groups until the wave or the shard is through.
  void emit_groups(WaveTasks& wave) {
    std::uint32_t source = kNoSource;
    if (shard_ != nullptr) {
      source = static_cast<std::uint32_t>(wave.sources.size());
      wave.sources.push_back({shard_->object, {shard_, &shard_->key}, {}});
    }
    while (cursor_ < pending_.size() && wave.tasks.size() < wave.max_tasks) {
      Group group;
      group.ordinal = shard_ordinal_;
      group.source = source;
      group.first_task = static_cast<std::uint32_t>(wave.tasks.size());
      group.offset = pending_[cursor_].offset;
      std::uint64_t end = group.offset;
      const bool absent = pending_[cursor_].length == 0;
      while (cursor_ < pending_.size() && wave.tasks.size() < wave.max_tasks) {
        const Task& task = pending_[cursor_];
        if ((task.length == 0) != absent) break;
        const std::uint64_t task_end = std::max(end, task.offset + task.length);
        if (group.task_count > 0 && !absent &&
            (task.offset > end + kMaxGapBytes || task_end - group.offset > kMaxGroupBytes)) {
          break;
        }
        end = task_end;
        wave.tasks.push_back(task);
        ++group.task_count;
        ++cursor_;
      }
      group.length = absent ? 0 : end - group.offset;
      wave.groups.push_back(group);
    }
  }

  std::vector<Projection> shard_projections_;
  std::uint64_t shards_ = 0, next_shard_ = 0;
  // The shard being handed out
  std::uint64_t shard_ordinal_ = 0;
  std::shared_ptr<const OpenShard> shard_;
  std::string key_;
  std::vector<std::vector<std::uint64_t>> touched_;
  std::vector<Task> pending_;
  std::size_t cursor_ = 0;
};

}  // namespace

Result<std::unique_ptr<transfer::Plan>> make_plan(std::shared_ptr<const Array::Impl> array,
                                                  const ResolvedSelection& selection, const TensorView& tensor) {
  if (array->sharding != nullptr) {
    return std::unique_ptr<transfer::Plan>(new ShardPlan(std::move(array), selection, tensor));
  }
  return std::unique_ptr<transfer::Plan>(new ChunkPlan(std::move(array), selection, tensor));
}

}  // namespace headrace::zarr
