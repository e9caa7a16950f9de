// ChunkClasses: a selection of an array whose chunks differ in shape, taken apart by the shape of the chunks.
//
// A slice is arithmetic on the runs of the grid; lists and points cost memory for their own length. Whatever the grid,
// no list of its chunks is made, and there are never more classes than chunks that hold selected elements.
//
// Threads: one at a time; footprints are immutable.
#pragma once

#include <headrace/selection.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "zarr/footprint.h"
#include "zarr/rectilinear_grid.h"

namespace headrace::zarr {

class ChunkClasses {
 public:
  // Keeps `grid`. kUnsupported: points in a grid of more than 2^64 chunks. Throws std::bad_alloc.
  static Result<std::unique_ptr<ChunkClasses>> make(std::shared_ptr<const RectilinearGrid> grid,
                                                    const ResolvedSelection& selection);
  virtual ~ChunkClasses() = default;
  ChunkClasses(const ChunkClasses&) = delete;
  ChunkClasses& operator=(const ChunkClasses&) = delete;

  // Chunks with selected elements, of all classes together; 2^64 - 1 where there are more.
  std::uint64_t chunk_count() const noexcept { return chunks_; }
  // Goes on to the next class, at first to the first one; false behind the last.
  virtual bool next() = 0;
  // Of the class:
  const std::vector<std::uint64_t>& shape() const noexcept { return shape_; }  // of its chunks
  // `input` has the selection, the strides and the tensor; the result must not outlive this.
  virtual Result<std::unique_ptr<const Footprint>> footprint(FootprintInput input) const = 0;

 protected:
  ChunkClasses() = default;
  std::uint64_t chunks_ = 0;
  std::vector<std::uint64_t> shape_;
};

}  // namespace headrace::zarr
