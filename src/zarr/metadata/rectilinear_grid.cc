#include "zarr/metadata/rectilinear_grid.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/checked.h"
#include "zarr/metadata/metadata_text.h"

namespace headrace::zarr {
namespace {

using base::Json;

constexpr std::string_view kGridConfig = "configuration of chunk_grid";

// Appends `count` chunks of `edge` elements. False where the axis would have more than 2^63 - 1 elements.
bool append(std::vector<EdgeRun>& runs, std::uint64_t edge, std::uint64_t count, std::uint64_t& elements,
            std::uint64_t& chunks) {
  const auto length = base::checked_mul(edge, count);
  if (!length || *length > kMaxExtent - elements) return false;
  if (!runs.empty() && runs.back().edge == edge) {
    runs.back().count += count;
  } else {
    runs.push_back({edge, count, chunks, elements});
  }
  elements += *length;
  chunks += count;
  return true;
}

Result<std::vector<EdgeRun>> parse_axis(const Json& value, std::uint64_t extent, const std::string& what) {
  std::vector<EdgeRun> runs;
  std::uint64_t elements = 0, chunks = 0;
  const auto too_long = [&what] { return corrupt(what + " makes an axis of more than 2^63 - 1 elements"); };
  if (!value.is_array()) {
    HEADRACE_TRY_ASSIGN(const std::uint64_t edge, read_integer(value, 1, kMaxExtent, what));
    const std::uint64_t count = base::ceil_div(extent, edge);
    if (count > 0 && !append(runs, edge, count, elements, chunks)) return too_long();
    return runs;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json& item = value[i];
    const std::string where = what + "[" + std::to_string(i) + "]";
    std::uint64_t edge = 0, count = 1;
    if (item.is_array()) {
      if (item.size() != 2) return wrong_value(where, "an edge length, or a pair [edge length, repeat count]", item);
      HEADRACE_TRY_ASSIGN(edge, read_integer(item[0], 1, kMaxExtent, where + "[0]"));
      HEADRACE_TRY_ASSIGN(count, read_integer(item[1], 1, kMaxExtent, where + "[1]"));
    } else {
      HEADRACE_TRY_ASSIGN(edge, read_integer(item, 1, kMaxExtent, where));
    }
    if (!append(runs, edge, count, elements, chunks)) return too_long();
  }
  if (elements < extent) {
    return corrupt(what + " covers " + std::to_string(elements) + " elements, but the array has " +
                   std::to_string(extent) + " along this axis");
  }
  return runs;
}

}  // namespace

std::uint64_t RectilinearGrid::chunk_count(std::size_t axis) const noexcept {
  return axes[axis].empty() ? 0 : axes[axis].back().first_chunk + axes[axis].back().count;
}

const EdgeRun& RectilinearGrid::run_of_chunk(std::size_t axis, std::uint64_t chunk) const noexcept {
  return *std::prev(std::upper_bound(axes[axis].begin(), axes[axis].end(), chunk,
                                     [](std::uint64_t value, const EdgeRun& run) { return value < run.first_chunk; }));
}

const EdgeRun& RectilinearGrid::run_of_element(std::size_t axis, std::uint64_t element) const noexcept {
  return *std::prev(
      std::upper_bound(axes[axis].begin(), axes[axis].end(), element,
                       [](std::uint64_t value, const EdgeRun& run) { return value < run.first_element; }));
}

std::uint64_t RectilinearGrid::chunk_begin(std::size_t axis, std::uint64_t chunk) const noexcept {
  const EdgeRun& run = run_of_chunk(axis, chunk);
  return run.first_element + (chunk - run.first_chunk) * run.edge;
}

std::uint64_t RectilinearGrid::largest_edge(std::size_t axis) const noexcept {
  std::uint64_t largest = 0;
  for (const EdgeRun& run : axes[axis]) largest = std::max(largest, run.edge);
  return largest;
}

Result<RectilinearGrid> parse_rectilinear(const Json& config, const std::vector<std::uint64_t>& shape) {
  HEADRACE_TRY(refuse_other_members(config, {"kind", "chunk_shapes"}, kGridConfig));
  HEADRACE_TRY_ASSIGN(const Json* kind, required_member(config, "kind", kGridConfig));
  if (!is_text(*kind, "inline")) {
    if (!kind->is_string()) return wrong_value("kind in the configuration of chunk_grid", "\"inline\"", *kind);
    return unsupported("chunk grid 'rectilinear' of kind " + shorten(*kind) + " is not implemented; 'inline' is");
  }
  HEADRACE_TRY_ASSIGN(const Json* shapes, required_member(config, "chunk_shapes", kGridConfig));
  if (!shapes->is_array()) return wrong_value("chunk_shapes", "a list with an entry for each dimension", *shapes);
  if (shapes->size() != shape.size()) {
    return corrupt("chunk_shapes has " + std::to_string(shapes->size()) + " dimensions, but shape has " +
                   std::to_string(shape.size()));
  }
  RectilinearGrid grid;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    HEADRACE_TRY_ASSIGN(auto axis, parse_axis((*shapes)[i], shape[i], "chunk_shapes[" + std::to_string(i) + "]"));
    grid.axes.push_back(std::move(axis));
  }
  return grid;
}

}  // namespace headrace::zarr
