// ChunkOrder: numbers the chunks of a rectilinear grid so that chunks of one shape are neighbours, the largest shape
// first.
//
// Slices are arithmetic on the grid's runs, and lists take memory for their own length. No list of the grid's chunks or
// of their shapes is ever made.
//
// Threads: immutable once made. The constructor throws std::bad_alloc; nothing is allocated later.
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

  // All chunks. Keeps `grid` alive.
  explicit ChunkOrder(std::shared_ptr<const RectilinearGrid> grid);
  // The chunks with selected elements, axis by axis. `lists`: one per axis, null for an axis without a list; or empty.
  ChunkOrder(std::shared_ptr<const RectilinearGrid> grid, const ResolvedSelection& selection,
             std::span<const std::shared_ptr<const IndexRuns>> lists);

  // nullopt: 2^64 or more.
  std::optional<std::uint64_t> count() const noexcept { return count_; }
  // REQUIRES for all below: count() has a value.
  // The chunk with that number: one entry for each axis.
  void chunk(std::uint64_t number, Chunk* axes) const;
  void position(std::uint64_t number, std::uint64_t* at) const;
  // One past the last chunk of the same shape.
  std::uint64_t shape_end(std::uint64_t number) const;
  // For an order of all chunks: the number of the chunk at that position of the grid.
  std::uint64_t number(const std::uint64_t* at) const;

 private:
  // Chunks of one edge length along one axis, ascending.
  struct EdgeClass {
    struct Run {
      std::uint64_t first_chunk, first_element;
      Projection chunks;     // within the run, as if it were a regular grid
      std::uint64_t before;  // chunks in earlier runs
    };
    struct Listed {
      std::uint64_t number, begin;
    };
    std::uint64_t edge = 0, count = 0;
    std::uint64_t before = 0;  // chunks of longer edges
    // One of the two is used:
    std::vector<Run> runs;       // of a slice
    std::vector<Listed> chunks;  // of a list

    Chunk at(std::uint64_t number) const;
  };
  struct Axis {
    std::vector<EdgeClass> classes;  // the longest edge first
    std::uint64_t chunks = 0;
    std::uint64_t behind = 1;  // product of the chunk counts of the axes after this one
  };

  using EdgeClasses = std::map<std::uint64_t, EdgeClass, std::greater<>>;  // by edge

  EdgeClasses edge_classes_of_slice(std::size_t axis, const ResolvedSelection::Dim& slice) const;
  EdgeClasses edge_classes_of_list(std::size_t axis, const IndexRuns& list) const;
  void set_axis(std::size_t axis, EdgeClasses&& classes);
  void count_chunks();
  // Sets `edges` to the classes that the chunk belongs to. Returns its number among the chunks of its shape.
  std::uint64_t classes_of(std::uint64_t number, const EdgeClass** edges) const;

  const std::shared_ptr<const RectilinearGrid> grid_;
  std::vector<Axis> axes_;
  std::optional<std::uint64_t> count_ = 1;
};

}  // namespace headrace::zarr
