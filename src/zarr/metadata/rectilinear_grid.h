// The chunk grid "rectilinear" (registered extension of Zarr v3): chunk lengths vary along each axis.
//
// Equal neighbouring lengths are stored as a run, never as a list of chunks. A run costs about forty bytes, however
// many chunks it stands for; its pair in the document takes some twenty bytes.
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
  std::vector<std::vector<EdgeRun>> axes;  // neighbouring runs differ in edge

  std::uint64_t chunk_count(std::size_t axis) const noexcept;
  // The run that contains the chunk or element. REQUIRES: the axis has it.
  const EdgeRun& run_of_chunk(std::size_t axis, std::uint64_t chunk) const noexcept;
  const EdgeRun& run_of_element(std::size_t axis, std::uint64_t element) const noexcept;
  std::uint64_t chunk_begin(std::size_t axis, std::uint64_t chunk) const noexcept;  // REQUIRES: chunk < chunk_count()
  std::uint64_t largest_edge(std::size_t axis) const noexcept;                      // 0 where the axis has no chunks
};

// Parses the configuration of a rectilinear grid for an array of `shape`. kCorrupt: what the registration forbids,
// namely a number of axes other than the array's, an edge or repetition below 1, or edges that do not reach the array's
// end. Chunks beyond the end are legal.
Result<RectilinearGrid> parse_rectilinear(const base::Json& config, const std::vector<std::uint64_t>& shape);

}  // namespace headrace::zarr
