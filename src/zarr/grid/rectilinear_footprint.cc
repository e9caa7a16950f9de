// The footprint of a selection by axes (not points) if chunks differ in shape.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "zarr/grid/chunk_order.h"
#include "zarr/grid/footprint.h"
#include "zarr/grid/footprint_kinds.h"
#include "zarr/grid/projection.h"
#include "zarr/grid/selection_boxes.h"

namespace headrace::zarr {
namespace {

using transfer::TaskDetail;

// Objects are numbered by a ChunkOrder and read whole.
class RectilinearFootprint final : public Footprint {
 public:
  explicit RectilinearFootprint(const FootprintInput& input) {
    std::vector<std::shared_ptr<const IndexRuns>> lists;
    for (const ResolvedSelection::Dim& dim : input.selection->dims) {
      lists.push_back(dim.list != nullptr ? make_index_runs(*dim.list) : nullptr);
      // Chunks are found by their edges; the part selected of one does not depend on the others.
      projections_.emplace_back(dim, kWholeAxis, lists.back());
    }
    order_.emplace(input.rectilinear, *input.selection, lists);
    boxes_.emplace(projections_, input);
    // Cannot overflow: there are at most as many chunks as selected elements.
    units_ = end_ = order_->count().value_or(0);
  }

  std::uint64_t shape_end(std::uint64_t object) const override { return order_->shape_end(object); }
  std::uint64_t next_object(std::uint64_t object) const override { return object + 1; }
  std::uint64_t root(std::uint64_t) const override { return 0; }
  void children(std::uint64_t, std::size_t, std::uint64_t, std::vector<Unit>&) const override {}
  void position(std::uint64_t object, std::uint64_t* at) const override { order_->position(object, at); }

  void describe(std::uint64_t object, std::size_t, std::uint64_t, TaskDetail& detail) const override {
    std::array<ChunkOrder::Chunk, device::kMaxRank> axes;
    order_->chunk(object, axes.data());
    std::array<std::uint64_t, device::kMaxRank> begin, shape;
    for (std::size_t i = 0; i < projections_.size(); ++i) {
      begin[i] = axes[i].begin;
      shape[i] = axes[i].edge;
    }
    boxes_->describe(begin.data(), shape.data(), detail);
  }
  bool next_box(TaskDetail& detail) const override { return boxes_->next(detail); }

 private:
  static constexpr std::uint64_t kWholeAxis = std::uint64_t{1} << 63;  // longer than any axis

  std::vector<Projection> projections_;
  std::optional<ChunkOrder> order_;
  std::optional<SelectionBoxes> boxes_;
};

}  // namespace

std::shared_ptr<const Footprint> make_rectilinear_footprint(const FootprintInput& input) {
  return std::make_shared<const RectilinearFootprint>(input);
}

}  // namespace headrace::zarr
