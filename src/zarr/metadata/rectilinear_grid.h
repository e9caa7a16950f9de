// The chunk grid "rectilinear" (registered extension of Zarr v3): along each axis chunks have lengths of their own.
//
// Lengths are kept as runs of equal ones, never as a list of chunks: what a run-length pair of twenty bytes says costs
// forty bytes, however many chunks it stands for.
//
// Threads: plain values.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace headrace::zarr {

// `count` chunks of `edge` elements each.
struct EdgeRun {
  std::uint64_t edge = 0, count = 0;
  std::uint64_t first_chunk = 0, first_element = 0;
};

struct RectilinearGrid {
  std::vector<std::vector<EdgeRun>> axes;  // neighbouring runs differ in their edge

  std::uint64_t chunk_count(std::size_t axis) const noexcept;
  // Where chunk and element lie. REQUIRES: the axis has them.
  const EdgeRun& run_of_chunk(std::size_t axis, std::uint64_t chunk) const noexcept;
  const EdgeRun& run_of_element(std::size_t axis, std::uint64_t element) const noexcept;
  std::uint64_t chunk_begin(std::size_t axis, std::uint64_t chunk) const noexcept;  // REQUIRES: chunk < chunk_count()
  std::uint64_t largest_edge(std::size_t axis) const noexcept;                      // 0 where the axis has no chunks
};

// The configuration of a rectilinear grid for an array of `shape`. kCorrupt: what the registration forbids: a number of
// axes that is not the array's, an edge or a repetition below 1, edges that do not reach the array's end. Chunks beyond
// the end are legal.
Result<RectilinearGrid> parse_rectilinear(const base::Json& config, const std::vector<std::uint64_t>& shape);

}  // namespace headrace::zarr
