// The footprint of a selection by axes (not points): a product of Projections.
#include <algorithm>
#include <array>
#include <optional>

#include "zarr/grid/footprint.h"
#include "zarr/grid/footprint_kinds.h"
#include "zarr/grid/projection.h"
#include "zarr/grid/selection_boxes.h"

namespace headrace::zarr {
namespace {

using transfer::TaskDetail;

// Objects are numbered in C order of the touched ones; units by the index entries that lead to them, outermost first.
class GridFootprint final : public Footprint {
 public:
  GridFootprint(FootprintInput input, std::pmr::memory_resource* memory)
      : rank_(input.selection->dims.size()), in_(std::move(input)), projections_(memory) {
    projections_.reserve(rank_ * (in_.levels.size() + 1));
    std::vector<std::shared_ptr<const IndexRuns>> runs;
    for (const ResolvedSelection::Dim& dim : in_.selection->dims) {
      if (dim.list == nullptr) continue;
      runs.resize(rank_);
      runs[static_cast<std::size_t>(&dim - in_.selection->dims.data())] = make_index_runs(*dim.list);
    }
    for (std::size_t level = 0; level <= in_.levels.size(); ++level) {
      const auto shape = level == 0 ? in_.object_shape : std::span<const std::uint64_t>(in_.levels[level - 1].shape);
      for (std::size_t axis = 0; axis < rank_; ++axis) {
        projections_.emplace_back(in_.selection->dims[axis], shape[axis], runs.empty() ? nullptr : runs[axis]);
      }
    }
    boxes_.emplace(std::span(projections_).first(rank_), in_);
    in_.selection = nullptr;
    units_ = end_ = 1;
    const Projection* const lowest = axes_of(in_.levels.size());
    for (std::size_t axis = 0; axis < rank_; ++axis) {
      units_ *= lowest[axis].touched();
      end_ *= projections_[axis].touched();
    }
  }

  std::uint64_t next_object(std::uint64_t object) const override { return object + 1; }
  std::uint64_t root(std::uint64_t) const override { return 0; }

  void position(std::uint64_t object, std::uint64_t* at) const override {
    const Projection* const axes = projections_.data();
    for (std::size_t i = rank_; i-- > 0;) {
      const std::uint64_t touched = axes[i].touched();
      at[i] = axes[i].chunk_at(object % touched);
      object /= touched;
    }
  }

  void children(std::uint64_t object, std::size_t level, std::uint64_t unit, std::vector<Unit>& out) const override {
    std::array<std::uint64_t, device::kMaxRank> parent, first, end, at;
    place(object, level, unit, parent.data());
    const LevelGrid& below = in_.levels[level];
    const Projection* const axes = axes_of(level + 1);
    std::uint64_t per_unit = 1;
    for (std::size_t i = 0; i < rank_; ++i) {
      first[i] = at[i] = axes[i].before(parent[i] * below.grid[i]);
      end[i] = axes[i].before((parent[i] + 1) * below.grid[i]);
      if (first[i] == end[i]) return;
      per_unit *= below.grid[i];
    }
    for (;;) {
      std::uint64_t entry = 0;
      for (std::size_t i = 0; i < rank_; ++i) {
        const std::size_t axis = below.axis_order[i];
        entry = entry * below.grid[axis] + (axes[axis].chunk_at(at[axis]) - parent[axis] * below.grid[axis]);
      }
      out.push_back({unit * per_unit + entry, entry});
      std::size_t axis = rank_;
      while (axis > 0 && ++at[axis - 1] == end[axis - 1]) {
        --axis;
        at[axis] = first[axis];
      }
      if (axis == 0) return;
    }
  }

  void describe(std::uint64_t object, std::size_t level, std::uint64_t unit, TaskDetail& detail) const override {
    std::array<std::uint64_t, device::kMaxRank> begin;
    place(object, level, unit, begin.data());
    const std::uint64_t* const shape = level == 0 ? in_.object_shape.data() : in_.levels[level - 1].shape.data();
    for (std::size_t i = 0; i < rank_; ++i) begin[i] *= shape[i];
    boxes_->describe(begin.data(), shape, detail);
  }

  bool next_box(TaskDetail& detail) const override { return boxes_->next(detail); }

 private:
  const Projection* axes_of(std::size_t level) const noexcept { return projections_.data() + level * rank_; }

  // Position of a unit, in units of its level.
  void place(std::uint64_t object, std::size_t level, std::uint64_t unit, std::uint64_t* at) const {
    position(object, at);
    if (level == 0) return;
    std::array<std::uint64_t, device::kMaxRank> inside, scale;
    if (level == 1) {
      const LevelGrid& grid = in_.levels[0];
      for (std::size_t i = rank_; i-- > 0;) {
        const std::size_t axis = grid.axis_order[i];
        at[axis] = at[axis] * grid.grid[axis] + unit % grid.grid[axis];
        unit /= grid.grid[axis];
      }
      return;
    }
    std::fill_n(inside.begin(), rank_, 0);
    std::fill_n(scale.begin(), rank_, 1);
    for (std::size_t l = level; l-- > 0;) {
      const LevelGrid& grid = in_.levels[l];
      for (std::size_t i = rank_; i-- > 0;) {
        const std::size_t axis = grid.axis_order[i];
        inside[axis] += scale[axis] * (unit % grid.grid[axis]);
        unit /= grid.grid[axis];
        scale[axis] *= grid.grid[axis];
      }
    }
    for (std::size_t i = 0; i < rank_; ++i) at[i] = at[i] * scale[i] + inside[i];
  }

  const std::size_t rank_;
  FootprintInput in_;
  std::pmr::vector<Projection> projections_;  // by level, then axis
  std::optional<SelectionBoxes> boxes_;
};

}  // namespace

std::shared_ptr<const Footprint> make_grid_footprint(FootprintInput&& input, std::pmr::memory_resource* memory) {
  return std::allocate_shared<GridFootprint>(std::pmr::polymorphic_allocator<GridFootprint>(memory), std::move(input),
                                             memory);
}

}  // namespace headrace::zarr
