// The footprint of points: a list of them in array order. It takes 24 bytes per point, whatever the number of chunks.
#include <algorithm>
#include <array>
#include <optional>

#include "base/checked.h"
#include "zarr/grid/chunk_order.h"
#include "zarr/grid/footprint.h"
#include "zarr/grid/footprint_kinds.h"

namespace headrace::zarr {
namespace {

using transfer::TaskDetail;

// Points of one chunk are neighbours, and so are those of one object. The number of an object or unit is the index of
// its first point.
class PointFootprint final : public Footprint {
 public:
  static Result<std::shared_ptr<const Footprint>> make(FootprintInput input) {
    std::unique_ptr<PointFootprint> made(new PointFootprint(std::move(input)));
    HEADRACE_TRY(made->count_units());
    if (made->in_.rectilinear != nullptr) {
      made->order_.emplace(made->in_.rectilinear);
      made->locate_points_by_shape();
    } else {
      made->locate_points();
    }
    made->sort_points();
    return std::shared_ptr<const Footprint>(std::move(made));
  }

  bool largest_first() const override { return !order_; }
  std::uint64_t shape_end(std::uint64_t object) const override {
    if (!order_) return end_;
    const std::uint64_t end = order_->shape_end(points_[static_cast<std::size_t>(object)].key);
    const auto behind = std::lower_bound(points_.begin() + static_cast<std::ptrdiff_t>(object), points_.end(), end,
                                         [](const Point& point, std::uint64_t key) { return point.key < key; });
    return static_cast<std::uint64_t>(behind - points_.begin());
  }
  std::uint64_t next_object(std::uint64_t object) const override { return end_of(object, 0); }
  std::uint64_t root(std::uint64_t object) const override { return object; }

  void position(std::uint64_t object, std::uint64_t* at) const override {
    std::uint64_t number = points_[static_cast<std::size_t>(object)].key / below_[0];
    if (order_) return order_->position(number, at);
    for (std::size_t i = rank_; i-- > 0;) {
      at[i] = number % in_.object_grid[i];
      number /= in_.object_grid[i];
    }
  }

  void children(std::uint64_t, std::size_t level, std::uint64_t unit, std::vector<Unit>& out) const override {
    const std::uint64_t end = end_of(unit, level);
    const std::uint64_t entries = below_[level] / below_[level + 1];
    while (unit != end) {
      out.push_back({unit, points_[static_cast<std::size_t>(unit)].key / below_[level + 1] % entries});
      unit = end_of(unit, level + 1);
    }
  }

  void describe(std::uint64_t, std::size_t level, std::uint64_t unit, TaskDetail& detail) const override {
    const std::uint64_t end = end_of(unit, level);
    detail.elements = end - unit;
    detail.span_begin = points_[static_cast<std::size_t>(unit)].offset;
    detail.span_end = points_[static_cast<std::size_t>(end - 1)].offset + in_.element_bytes;
    detail.walk.at[0] = unit;
    detail.walk.count[0] = end;
    make_box(detail);
    detail.several = detail.walk.at[0] != end;
    detail.whole_chunk = !detail.several && level == in_.levels.size() && detail.elements == elements_of(unit) &&
                         device::is_contiguous(detail.box, in_.element_bytes, false);
  }

  bool next_box(TaskDetail& detail) const override {
    if (!detail.several || detail.walk.at[0] == detail.walk.count[0]) return false;
    make_box(detail);
    return true;
  }

 private:
  struct Point {
    std::uint64_t key;     // number of the smallest unit, composed of the object and the entry at each level
    std::uint64_t offset;  // in the decoded unit, bytes
    std::uint64_t place;   // in the result
  };

  explicit PointFootprint(FootprintInput input)
      : rank_(input.selection->dims.size()),
        in_(std::move(input)),
        below_(in_.levels.size() + 1, 1),
        dst_stride_(in_.dst_strides[0]) {}

  Status count_units() {
    std::optional<std::uint64_t> all = 1;
    const auto multiply = [&all](std::span<const std::uint64_t> grid) {
      for (const std::uint64_t count : grid) {
        if (all) all = base::checked_mul(*all, std::max<std::uint64_t>(count, 1));
      }
    };
    for (std::size_t level = in_.levels.size(); level-- > 0;) {
      multiply(in_.levels[level].grid);
      below_[level] = all.value_or(0);
    }
    multiply(in_.object_grid);
    if (!all)
      return Status(Code::kUnsupported, Layer::kZarr, "a selection of points in an array of more than 2^64 chunks");
    const auto unit = in_.levels.empty() ? in_.object_shape : std::span<const std::uint64_t>(in_.levels.back().shape);
    for (const std::uint64_t extent : unit) unit_elements_ *= extent;
    return {};
  }

  void locate_points() {
    const std::vector<ResolvedSelection::Dim>& dims = in_.selection->dims;
    points_.resize(static_cast<std::size_t>(dims.empty() ? 0 : dims[0].count));
    std::array<std::uint64_t, device::kMaxRank> inside;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      Point& point = points_[i];
      point = {0, 0, i};
      for (std::size_t axis = 0; axis < rank_; ++axis) {
        const std::uint64_t index = (*dims[axis].list)[i],
                            object = index / std::max<std::uint64_t>(in_.object_shape[axis], 1);
        inside[axis] = index - object * in_.object_shape[axis];
        point.key = point.key * in_.object_grid[axis] + object;
      }
      for (const LevelGrid& level : in_.levels) {
        for (const std::uint8_t axis : level.axis_order) {
          const std::uint64_t entry = inside[axis] / level.shape[axis];
          inside[axis] -= entry * level.shape[axis];
          point.key = point.key * level.grid[axis] + entry;
        }
      }
      for (std::size_t axis = 0; axis < rank_; ++axis) {
        point.offset += inside[axis] * static_cast<std::uint64_t>(in_.src_strides[axis]);
      }
    }
  }

  // For chunks that differ in shape.
  void locate_points_by_shape() {
    const std::vector<ResolvedSelection::Dim>& dims = in_.selection->dims;
    points_.resize(static_cast<std::size_t>(dims.empty() ? 0 : dims[0].count));
    std::array<std::uint64_t, device::kMaxRank> at, inside, shape;
    std::array<std::int64_t, device::kMaxRank> strides;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      for (std::size_t axis = 0; axis < rank_; ++axis) {
        const std::uint64_t index = (*dims[axis].list)[i];
        const EdgeRun& run = in_.rectilinear->run_of_element(axis, index);
        const std::uint64_t in_run = index - run.first_element;
        at[axis] = run.first_chunk + in_run / run.edge;
        inside[axis] = in_run % run.edge;
        shape[axis] = run.edge;
      }
      strides_in_chunk(in_.axis_order, in_.element_bytes, shape.data(), strides.data());
      Point& point = points_[i];
      point = {order_->number(at.data()), 0, i};
      for (std::size_t axis = 0; axis < rank_; ++axis) {
        point.offset += inside[axis] * static_cast<std::uint64_t>(strides[axis]);
      }
    }
  }

  // Number of elements of a smallest unit.
  std::uint64_t elements_of(std::uint64_t unit) const {
    if (!order_) return unit_elements_;
    std::array<ChunkOrder::Chunk, device::kMaxRank> axes;
    order_->chunk(points_[static_cast<std::size_t>(unit)].key, axes.data());
    std::optional<std::uint64_t> elements = 1;
    for (std::size_t axis = 0; axis < rank_ && elements; ++axis)
      elements = base::checked_mul(*elements, axes[axis].edge);
    return elements.value_or(~std::uint64_t{0});
  }

  void sort_points() {
    in_.selection = nullptr;
    if (!std::is_sorted(points_.begin(), points_.end(), before)) std::sort(points_.begin(), points_.end(), before);
    end_ = points_.size();
    for (std::uint64_t unit = 0; unit != end_; unit = end_of(unit, in_.levels.size())) ++units_;
  }

  static bool before(const Point& a, const Point& b) noexcept {
    if (a.key != b.key) return a.key < b.key;
    return a.offset != b.offset ? a.offset < b.offset : a.place < b.place;
  }

  // One past the last point of the unit of `level` that contains this point.
  std::uint64_t end_of(std::uint64_t point, std::size_t level) const {
    const std::uint64_t scale = below_[level], number = points_[static_cast<std::size_t>(point)].key / scale;
    // Most units have few points; larger ones are searched in growing steps.
    std::uint64_t inside = point, step = 1;
    while (inside + step < end_ && points_[static_cast<std::size_t>(inside + step)].key / scale == number) {
      inside += step;
      step *= 2;
    }
    const auto from = points_.begin() + static_cast<std::ptrdiff_t>(inside);
    const auto to = points_.begin() + static_cast<std::ptrdiff_t>(std::min(inside + step, end_));
    return static_cast<std::uint64_t>(
        std::partition_point(from, to, [&](const Point& p) { return p.key / scale == number; }) - points_.begin());
  }

  // Makes a box of the first points of [walk.at[0], walk.count[0]) that lie in equal steps in both chunk and result.
  void make_box(TaskDetail& detail) const {
    const std::uint64_t first = detail.walk.at[0], end = detail.walk.count[0];
    const Point* const from = &points_[static_cast<std::size_t>(first)];
    std::uint64_t count = 1;
    std::uint64_t offset_step = 0, place_step = 0;
    if (first + 1 < end) {
      offset_step = from[1].offset - from[0].offset;
      place_step = from[1].place - from[0].place;
      for (count = 2; first + count < end; ++count) {
        if (from[count].offset - from[count - 1].offset != offset_step ||
            from[count].place - from[count - 1].place != place_step) {
          break;
        }
      }
    }
    device::Box& box = detail.box;
    const std::int64_t stride = dst_stride_;
    box.src = nullptr;
    box.dst = in_.dst.data() + in_.dst_first + static_cast<std::int64_t>(from[0].place) * stride;
    detail.source_offset = static_cast<std::int64_t>(from[0].offset);
    detail.tensor = in_.dst;
    box.rank = count > 1 ? 1 : 0;
    if (count > 1) {
      box.dim[0] = {count, static_cast<std::int64_t>(offset_step), static_cast<std::int64_t>(place_step) * stride};
    }
    detail.walk.at[0] = first + count;
  }

  const std::size_t rank_;
  FootprintInput in_;
  std::optional<ChunkOrder> order_;   // if chunks differ in shape: numbers all chunks
  std::vector<std::uint64_t> below_;  // smallest units in one of each level
  const std::int64_t dst_stride_;
  std::vector<Point> points_;
  std::uint64_t unit_elements_ = 1;
};

}  // namespace

Result<std::shared_ptr<const Footprint>> make_point_footprint(FootprintInput input) {
  return PointFootprint::make(std::move(input));
}

Result<std::shared_ptr<const Footprint>> make_footprint(FootprintInput input, std::pmr::memory_resource* memory) {
  if (input.selection->points) return make_point_footprint(std::move(input));
  return input.rectilinear != nullptr ? make_rectilinear_footprint(input)
                                      : make_grid_footprint(std::move(input), memory);
}

void strides_in_chunk(std::span<const std::uint8_t> axis_order, std::uint32_t element_bytes, const std::uint64_t* shape,
                      std::int64_t* strides) noexcept {
  std::uint64_t stride = element_bytes;
  for (std::size_t i = axis_order.size(); i-- > 0;) {
    strides[axis_order[i]] = static_cast<std::int64_t>(stride);
    stride *= shape[axis_order[i]];
  }
}

}  // namespace headrace::zarr
