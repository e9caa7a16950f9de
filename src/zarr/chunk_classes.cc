#include "zarr/chunk_classes.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/checked.h"
#include "zarr/footprint_kinds.h"
#include "zarr/projection.h"
#include "zarr/selection_boxes.h"

namespace headrace::zarr {
namespace {

using transfer::TaskDetail;

const EdgeRun& run_of(const std::vector<EdgeRun>& runs, std::uint64_t element) {
  return *std::prev(std::upper_bound(runs.begin(), runs.end(), element, [](std::uint64_t value, const EdgeRun& run) {
    return value < run.first_element;
  }));
}

// The chunks of one edge length along one axis that hold selected elements, ascending.
struct EdgeClass {
  struct Run {
    std::uint64_t first_chunk, first_element;
    Projection chunks;     // within the run, as if it were a regular grid
    std::uint64_t before;  // touched chunks in the runs before
  };
  struct Chunk {
    std::uint64_t number, begin;
  };
  std::uint64_t edge = 0, touched = 0;
  // One of the two:
  std::vector<Run> runs;      // of a slice
  std::vector<Chunk> chunks;  // of a list

  Chunk at(std::uint64_t number) const {
    if (!chunks.empty()) return chunks[static_cast<std::size_t>(number)];
    // The last run that begins at or before it.
    const auto run =
        std::prev(std::upper_bound(runs.begin(), runs.end(), number,
                                   [](std::uint64_t value, const Run& candidate) { return value < candidate.before; }));
    const std::uint64_t in_run = run->chunks.chunk_at(number - run->before);
    return {run->first_chunk + in_run, run->first_element + in_run * edge};
  }
};

using EdgeClasses = std::map<std::uint64_t, EdgeClass>;  // by edge

EdgeClass& class_of(EdgeClasses& classes, std::uint64_t edge) {
  EdgeClass& found = classes[edge];
  found.edge = edge;
  return found;
}

void add_slice(const std::vector<EdgeRun>& runs, const ResolvedSelection::Dim& slice, EdgeClasses& classes) {
  const Projection all(slice, 1);
  for (const EdgeRun& run : runs) {
    const Intersection part = all.intersect(run.first_element, run.edge * run.count);
    if (part.count == 0) continue;
    EdgeClass& edges = class_of(classes, run.edge);
    const Projection chunks({part.in_chunk, part.count, slice.step, false}, run.edge);
    edges.runs.push_back({run.first_chunk, run.first_element, chunks, edges.touched});
    edges.touched += chunks.touched();
  }
}

void add_list(const std::vector<EdgeRun>& runs, const IndexRuns& list, EdgeClasses& classes) {
  std::optional<std::uint64_t> last;
  for (const IndexRun& indices : list) {
    for (std::uint64_t i = 0; i < indices.count;) {
      const std::uint64_t index = indices.begin + i * indices.step;
      const EdgeRun& run = run_of(runs, index);
      const std::uint64_t in_run = (index - run.first_element) / run.edge, number = run.first_chunk + in_run;
      const std::uint64_t begin = run.first_element + in_run * run.edge;
      if (last != number) {
        EdgeClass& edges = class_of(classes, run.edge);
        edges.chunks.push_back({number, begin});
        ++edges.touched;
        last = number;
      }
      if (indices.step == 0) break;
      // On to the first index behind this chunk.
      i = std::max(i + 1, base::ceil_div(begin + run.edge - indices.begin, indices.step));
    }
  }
}

// The chunks of one shape. Objects are numbered in C order of them.
class ClassFootprint final : public Footprint {
 public:
  ClassFootprint(std::vector<const EdgeClass*> axes, std::span<const Projection> projections,
                 const FootprintInput& input)
      : axes_(std::move(axes)), boxes_(projections, input) {
    units_ = end_ = 1;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      shape_[i] = axes_[i]->edge;
      units_ = end_ = units_ * axes_[i]->touched;
    }
  }

  std::uint64_t next_object(std::uint64_t object) const override { return object + 1; }
  std::uint64_t root(std::uint64_t) const override { return 0; }
  void children(std::uint64_t, std::size_t, std::uint64_t, std::vector<Unit>&) const override {}  // read whole

  void position(std::uint64_t object, std::uint64_t* at) const override {
    each_axis(object, [at](std::size_t i, const EdgeClass::Chunk& chunk) { at[i] = chunk.number; });
  }
  void describe(std::uint64_t object, std::size_t, std::uint64_t, TaskDetail& detail) const override {
    std::array<std::uint64_t, device::kMaxRank> begin;
    each_axis(object, [&begin](std::size_t i, const EdgeClass::Chunk& chunk) { begin[i] = chunk.begin; });
    boxes_.describe(begin.data(), shape_.data(), detail);
  }
  bool next_box(TaskDetail& detail) const override { return boxes_.next(detail); }

 private:
  template <class Visit>
  void each_axis(std::uint64_t object, Visit visit) const {
    for (std::size_t i = axes_.size(); i-- > 0;) {
      visit(i, axes_[i]->at(object % axes_[i]->touched));
      object /= axes_[i]->touched;
    }
  }

  const std::vector<const EdgeClass*> axes_;
  const SelectionBoxes boxes_;
  std::array<std::uint64_t, device::kMaxRank> shape_;
};

// Slices and lists: a class for each combination of edge lengths along the axes.
class AxisClasses final : public ChunkClasses {
 public:
  AxisClasses(const RectilinearGrid& grid, const ResolvedSelection& selection) : at_(grid.axes.size(), 0) {
    chunks_ = 1;
    for (std::size_t i = 0; i < grid.axes.size(); ++i) {
      const ResolvedSelection::Dim& dim = selection.dims[i];
      EdgeClasses by_edge;
      std::shared_ptr<const IndexRuns> runs;
      if (dim.list != nullptr) {
        runs = make_index_runs(*dim.list);
        add_list(grid.axes[i], *runs, by_edge);
      } else {
        add_slice(grid.axes[i], dim, by_edge);
      }
      // Chunks are found by edge; what is selected of one does not depend on the others.
      projections_.emplace_back(dim, kWholeAxis, std::move(runs));
      std::vector<EdgeClass>& classes = axes_.emplace_back();
      std::uint64_t touched = 0;
      for (auto& [edge, edges] : by_edge) {
        touched += edges.touched;
        classes.push_back(std::move(edges));
      }
      nothing_ = nothing_ || classes.empty();
      chunks_ = base::checked_mul(chunks_, touched).value_or(~std::uint64_t{0});
    }
    if (nothing_) chunks_ = 0;
  }

  bool next() override {
    if (nothing_) return false;
    if (shape_known_) {
      std::size_t axis = axes_.size();
      while (axis > 0 && ++at_[axis - 1] == axes_[axis - 1].size()) at_[--axis] = 0;
      if (axis == 0) return false;
    }
    shape_known_ = true;
    shape_.clear();
    for (std::size_t i = 0; i < axes_.size(); ++i) shape_.push_back(axes_[i][at_[i]].edge);
    return true;
  }

  Result<std::unique_ptr<const Footprint>> footprint(FootprintInput input) const override {
    std::vector<const EdgeClass*> axes;
    for (std::size_t i = 0; i < axes_.size(); ++i) axes.push_back(&axes_[i][at_[i]]);
    return std::unique_ptr<const Footprint>(new ClassFootprint(std::move(axes), projections_, input));
  }

 private:
  static constexpr std::uint64_t kWholeAxis = std::uint64_t{1} << 63;  // longer than any

  std::vector<std::vector<EdgeClass>> axes_;
  std::vector<Projection> projections_;
  std::vector<std::size_t> at_;
  bool nothing_ = false, shape_known_ = false;
};

// Points, sorted by the shape of their chunks, then by chunk.
class PointClasses final : public ChunkClasses {
 public:
  static Result<std::unique_ptr<ChunkClasses>> make(std::shared_ptr<const RectilinearGrid> grid,
                                                    const ResolvedSelection& selection) {
    std::unique_ptr<PointClasses> made(new PointClasses(std::move(grid)));
    HEADRACE_TRY(made->list_edges());
    made->sort_points(selection);
    return std::unique_ptr<ChunkClasses>(std::move(made));
  }

  bool next() override {
    first_ = end_;
    if (first_ == points_.size()) return false;
    const std::uint64_t number = points_[first_].shape;
    while (end_ < points_.size() && points_[end_].shape == number) ++end_;
    shape_.assign(edges_.size(), 0);
    std::uint64_t rest = number;
    for (std::size_t i = edges_.size(); i-- > 0;) {
      shape_[i] = edges_[i][static_cast<std::size_t>(rest % edges_[i].size())];
      rest /= edges_[i].size();
    }
    return true;
  }

  Result<std::unique_ptr<const Footprint>> footprint(FootprintInput input) const override {
    input.object_shape = shape_;
    input.object_grid = grid_shape_;
    const std::vector<ResolvedSelection::Dim>& dims = input.selection->dims;
    std::vector<LocatedPoint> points;
    points.reserve(end_ - first_);
    for (std::size_t p = first_; p < end_; ++p) {
      LocatedPoint point{points_[p].chunk, 0, points_[p].place};
      for (std::size_t i = 0; i < edges_.size(); ++i) {
        const std::uint64_t index = (*dims[i].list)[static_cast<std::size_t>(point.place)];
        const std::uint64_t inside = (index - run_of(grid_->axes[i], index).first_element) % shape_[i];
        point.offset += inside * static_cast<std::uint64_t>(input.src_strides[i]);
      }
      points.push_back(point);
    }
    return make_point_footprint(std::move(input), std::move(points));
  }

 private:
  struct Point {
    std::uint64_t shape;  // number of its class: by the edges along each axis, first axis slowest
    std::uint64_t chunk;  // in the grid, C order
    std::uint64_t place;  // in the result
  };

  explicit PointClasses(std::shared_ptr<const RectilinearGrid> grid) : grid_(std::move(grid)) {}

  Status list_edges() {
    std::optional<std::uint64_t> all = 1;
    for (std::size_t i = 0; i < grid_->axes.size(); ++i) {
      std::vector<std::uint64_t>& edges = edges_.emplace_back();
      for (const EdgeRun& run : grid_->axes[i]) edges.push_back(run.edge);
      std::sort(edges.begin(), edges.end());
      edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
      grid_shape_.push_back(grid_->chunk_count(i));
      // There are no more shapes than chunks.
      if (all) all = base::checked_mul(*all, std::max<std::uint64_t>(grid_shape_.back(), 1));
    }
    if (all) return {};
    return Status(Code::kUnsupported, Layer::kZarr, "a selection of points in an array of more than 2^64 chunks");
  }

  void sort_points(const ResolvedSelection& selection) {
    const std::vector<ResolvedSelection::Dim>& dims = selection.dims;
    points_.resize(static_cast<std::size_t>(dims.empty() ? 0 : dims[0].count));
    for (std::size_t p = 0; p < points_.size(); ++p) {
      Point& point = points_[p];
      point = {0, 0, p};
      for (std::size_t i = 0; i < edges_.size(); ++i) {
        const std::uint64_t index = (*dims[i].list)[p];
        const EdgeRun& run = run_of(grid_->axes[i], index);
        const auto edge = std::lower_bound(edges_[i].begin(), edges_[i].end(), run.edge);
        point.shape = point.shape * edges_[i].size() + static_cast<std::uint64_t>(edge - edges_[i].begin());
        point.chunk = point.chunk * grid_shape_[i] + run.first_chunk + (index - run.first_element) / run.edge;
      }
    }
    std::sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) {
      return a.shape != b.shape ? a.shape < b.shape : a.chunk != b.chunk ? a.chunk < b.chunk : a.place < b.place;
    });
    for (std::size_t p = 0; p < points_.size(); ++p) {
      chunks_ += p == 0 || points_[p].chunk != points_[p - 1].chunk ? 1 : 0;
    }
  }

  const std::shared_ptr<const RectilinearGrid> grid_;
  std::vector<std::vector<std::uint64_t>> edges_;  // different ones of each axis, ascending
  std::vector<std::uint64_t> grid_shape_;
  std::vector<Point> points_;
  std::size_t first_ = 0, end_ = 0;  // those of the class
};

}  // namespace

Result<std::unique_ptr<ChunkClasses>> ChunkClasses::make(std::shared_ptr<const RectilinearGrid> grid,
                                                         const ResolvedSelection& selection) {
  if (selection.points) return PointClasses::make(std::move(grid), selection);
  return std::unique_ptr<ChunkClasses>(new AxisClasses(*grid, selection));
}

}  // namespace headrace::zarr
