#include "zarr/grid/chunk_order.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/checked.h"
#include "device/box.h"

namespace headrace::zarr {

ChunkOrder::Chunk ChunkOrder::EdgeClass::at(std::uint64_t number) const {
  if (!chunks.empty()) {
    const Listed& chunk = chunks[static_cast<std::size_t>(number)];
    return {chunk.number, chunk.begin, edge};
  }
  // The last run that begins at or before `number`.
  const auto run =
      std::prev(std::upper_bound(runs.begin(), runs.end(), number,
                                 [](std::uint64_t value, const Run& candidate) { return value < candidate.before; }));
  const std::uint64_t in_run = run->chunks.chunk_at(number - run->before);
  return {run->first_chunk + in_run, run->first_element + in_run * edge, edge};
}

ChunkOrder::ChunkOrder(std::shared_ptr<const RectilinearGrid> grid)
    : grid_(std::move(grid)), axes_(grid_->axes.size()) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const std::vector<EdgeRun>& runs = grid_->axes[i];
    const std::uint64_t end = runs.empty() ? 0 : runs.back().first_element + runs.back().edge * runs.back().count;
    set_axis(i, edge_classes_of_slice(i, {0, end, 1, false}));
  }
  count_chunks();
}

ChunkOrder::ChunkOrder(std::shared_ptr<const RectilinearGrid> grid, const ResolvedSelection& selection,
                       std::span<const std::shared_ptr<const IndexRuns>> lists)
    : grid_(std::move(grid)), axes_(grid_->axes.size()) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const bool list = !lists.empty() && lists[i] != nullptr;
    set_axis(i, list ? edge_classes_of_list(i, *lists[i]) : edge_classes_of_slice(i, selection.dims[i]));
  }
  count_chunks();
}

ChunkOrder::EdgeClasses ChunkOrder::edge_classes_of_slice(std::size_t axis, const ResolvedSelection::Dim& slice) const {
  EdgeClasses classes;
  const Projection all(slice, 1);
  for (const EdgeRun& run : grid_->axes[axis]) {
    const Intersection part = all.intersect(run.first_element, run.edge * run.count);
    if (part.count == 0) continue;
    EdgeClass& edges = classes[run.edge];
    const Projection chunks({part.in_chunk, part.count, slice.step, false}, run.edge);
    edges.runs.push_back({run.first_chunk, run.first_element, chunks, edges.count});
    edges.count += chunks.touched();
  }
  return classes;
}

ChunkOrder::EdgeClasses ChunkOrder::edge_classes_of_list(std::size_t axis, const IndexRuns& list) const {
  EdgeClasses classes;
  std::optional<std::uint64_t> last;
  for (const IndexRun& indices : list) {
    for (std::uint64_t i = 0; i < indices.count;) {
      const std::uint64_t index = indices.begin + i * indices.step;
      const EdgeRun& run = grid_->run_of_element(axis, index);
      const std::uint64_t in_run = (index - run.first_element) / run.edge, number = run.first_chunk + in_run;
      const std::uint64_t begin = run.first_element + in_run * run.edge;
      if (last != number) {
        EdgeClass& edges = classes[run.edge];
        edges.chunks.push_back({number, begin});
        ++edges.count;
        last = number;
      }
      if (indices.step == 0) break;
      // Skip to the first index after this chunk.
      i = std::max(i + 1, base::ceil_div(begin + run.edge - indices.begin, indices.step));
    }
  }
  return classes;
}

void ChunkOrder::set_axis(std::size_t axis, EdgeClasses&& classes) {
  Axis& out = axes_[axis];
  out.classes.reserve(classes.size());
  for (auto& [edge, edges] : classes) {
    edges.edge = edge;
    edges.before = out.chunks;
    out.chunks += edges.count;
    out.classes.push_back(std::move(edges));
  }
}

void ChunkOrder::count_chunks() {
  for (std::size_t i = axes_.size(); i-- > 0;) {
    axes_[i].behind = count_.value_or(0);
    if (axes_[i].chunks == 0) {
      count_ = 0;
    } else if (count_) {
      count_ = base::checked_mul(*count_, axes_[i].chunks);
    }
  }
}

// The chunks before a given chunk are those with a longer edge along the first axis; then those with the same edge
// along the first axis and a longer one along the second, and so on; then those of its shape that precede it in C
// order.
std::uint64_t ChunkOrder::classes_of(std::uint64_t number, const EdgeClass** edges) const {
  std::uint64_t alike = 1;  // chunks with the same edges along the axes so far
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    const std::uint64_t scale = alike * axis.behind, before = number / scale;
    edges[i] = &*std::prev(
        std::upper_bound(axis.classes.begin(), axis.classes.end(), before,
                         [](std::uint64_t value, const EdgeClass& candidate) { return value < candidate.before; }));
    number -= edges[i]->before * scale;
    alike *= edges[i]->count;
  }
  return number;
}

void ChunkOrder::chunk(std::uint64_t number, Chunk* axes) const {
  std::array<const EdgeClass*, device::kMaxRank> edges;
  std::uint64_t within = classes_of(number, edges.data());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    axes[i] = edges[i]->at(within % edges[i]->count);
    within /= edges[i]->count;
  }
}

std::uint64_t ChunkOrder::shape_end(std::uint64_t number) const {
  std::array<const EdgeClass*, device::kMaxRank> edges;
  const std::uint64_t first = number - classes_of(number, edges.data());
  std::uint64_t alike = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) alike *= edges[i]->count;
  return first + alike;
}

void ChunkOrder::position(std::uint64_t number, std::uint64_t* at) const {
  std::array<Chunk, device::kMaxRank> axes;
  chunk(number, axes.data());
  for (std::size_t i = 0; i < axes_.size(); ++i) at[i] = axes[i].number;
}

std::uint64_t ChunkOrder::number(const std::uint64_t* at) const {
  std::uint64_t before = 0, alike = 1, within = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    const std::uint64_t edge = grid_->run_of_chunk(i, at[i]).edge;
    const auto edges = std::lower_bound(axis.classes.begin(), axis.classes.end(), edge,
                                        [](const EdgeClass& a, std::uint64_t value) { return a.edge > value; });
    const auto run = std::prev(std::upper_bound(
        edges->runs.begin(), edges->runs.end(), at[i],
        [](std::uint64_t value, const EdgeClass::Run& candidate) { return value < candidate.first_chunk; }));
    before += edges->before * (alike * axis.behind);
    alike *= edges->count;
    within = within * edges->count + (run->before + at[i] - run->first_chunk);
  }
  return before + within;
}

}  // namespace headrace::zarr
