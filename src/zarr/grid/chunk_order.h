// ChunkOrder: chunks of a rectilinear grid, numbered so that those of one shape are neighbours, the largest first.
//
// Slices are arithmetic on the runs of the grid, and lists cost memory for their own length: whatever the grid, no list
// of its chunks is made, nor of their shapes.
//
// Threads: immutable once made. Throws std::bad_alloc when it is made, and allocates nothing later.
#pragma once

#include <headrace/selection.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zarr/grid/projection.h"
#include "zarr/metadata/rectilinear_grid.h"

namespace headrace::zarr {

class ChunkOrder {
 public:
  // A chunk along one axis.
  struct Chunk {
    std::uint64_t number, begin, edge;
  };

  // All chunks. Keeps `grid`.
  explicit ChunkOrder(std::shared_ptr<const RectilinearGrid> grid);
  // Those that hold selected elements, axis by axis. `lists`: of each axis, null where it is no list; or empty.
  ChunkOrder(std::shared_ptr<const RectilinearGrid> grid, const ResolvedSelection& selection,
             std::span<const std::shared_ptr<const IndexRuns>> lists);

  // Nothing: 2^64 or more.
  std::optional<std::uint64_t> count() const noexcept { return count_; }
  // REQUIRES of all below: count().
  // The chunk with that number: one entry for each axis.
  void chunk(std::uint64_t number, Chunk* axes) const;
  void position(std::uint64_t number, std::uint64_t* at) const;
  // Behind the last one that has its shape.
  std::uint64_t shape_end(std::uint64_t number) const;
  // Of an order of all chunks: the number of the one at that place of the grid.
  std::uint64_t number(const std::uint64_t* at) const;

 private:
  // Chunks of one edge along one axis, ascending.
  struct EdgeClass {
    struct Run {
      std::uint64_t first_chunk, first_element;
      Projection chunks;     // within the run, as if it were a regular grid
      std::uint64_t before;  // chunks in the runs before
    };
    struct Listed {
      std::uint64_t number, begin;
    };
    std::uint64_t edge = 0, count = 0;
    std::uint64_t before = 0;  // chunks of longer edges
    // One of the two:
    std::vector<Run> runs;       // of a slice
    std::vector<Listed> chunks;  // of a list

    Chunk at(std::uint64_t number) const;
  };
  struct Axis {
    std::vector<EdgeClass> classes;  // the longest edge first
    std::uint64_t chunks = 0;
    std::uint64_t behind = 1;  // chunks that the axes behind this one make together
  };

  using EdgeClasses = std::map<std::uint64_t, EdgeClass, std::greater<>>;  // by edge

  EdgeClasses of_slice(std::size_t axis, const ResolvedSelection::Dim& slice) const;
  EdgeClasses of_list(std::size_t axis, const IndexRuns& list) const;
  void set_axis(std::size_t axis, EdgeClasses&& classes);
  void count_chunks();
  // The classes that a chunk is of; gives its number among those of its shape.
  std::uint64_t classes_of(std::uint64_t number, const EdgeClass** edges) const;

  const std::shared_ptr<const RectilinearGrid> grid_;
  std::vector<Axis> axes_;
  std::optional<std::uint64_t> count_ = 1;
};

}  // namespace headrace::zarr
