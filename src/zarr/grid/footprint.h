// Footprint: which stored objects and which chunks in them a selection touches, and where their elements go.
//
// Chunks are found without a list of them. An object is named by a number of the footprint's own; next() gives the one
// behind it. What lies in an object is a tree: the object is its level 0, the chunks of its shard level 1, and where
// those are shards again, their chunks level 2, and so on. A unit of a level is named by a number, too.
//
// Threads: immutable once made.
#pragma once

#include <headrace/selection.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

#include "transfer/plan/plan.h"
#include "zarr/metadata/rectilinear_grid.h"

namespace headrace::zarr {

// One level of sharding; all lists have one entry for each axis of the array.
struct LevelGrid {
  std::vector<std::uint64_t> shape;      // of a unit, in elements
  std::vector<std::uint64_t> grid;       // units in one of the level above
  std::vector<std::uint8_t> axis_order;  // entry k of the index above counts axis_order[0] slowest
};

struct FootprintInput {
  const ResolvedSelection* selection = nullptr;
  // Kept by whoever asks, longer than the footprint:
  std::span<const std::uint64_t> object_shape, object_grid;
  std::span<const LevelGrid> levels;          // below the object; empty: it is one chunk
  std::span<const std::int64_t> src_strides;  // of the smallest unit, decoded; bytes
  // Where objects differ in shape: instead of object_shape and src_strides, and there are no levels.
  std::shared_ptr<const RectilinearGrid> rectilinear = nullptr;
  std::span<const std::uint8_t> axis_order;  // of a decoded one: entry k is the axis that is k-th slowest
  // Not kept:
  std::span<const std::int64_t> dst_strides;  // of the tensor, one per dimension of the result
  std::span<std::byte> dst;                   // its memory, which no box goes beyond
  std::size_t dst_first = 0;                  // of dst: where its first element begins
  std::uint32_t element_bytes = 1;            // decoded
};

class Footprint {
 public:
  struct Unit {
    std::uint64_t number;
    std::uint64_t entry;  // in the index of the unit above
  };

  virtual ~Footprint() = default;
  std::uint64_t units() const noexcept { return units_; }  // of the lowest level

  std::uint64_t first_object() const noexcept { return 0; }
  std::uint64_t end_object() const noexcept { return end_; }
  // Where they differ in shape, those of one shape follow each other. Whether the first one has the most elements:
  virtual bool largest_first() const { return true; }
  // Behind the last of those that have this one's shape.
  virtual std::uint64_t shape_end(std::uint64_t object) const { return (void)object, end_; }
  virtual std::uint64_t next_object(std::uint64_t object) const = 0;
  // Its place in the grid of objects.
  virtual void position(std::uint64_t object, std::uint64_t* at) const = 0;
  // Appends the units of `level` + 1 that are touched in `unit` of `level`. An object is unit root(object) of level 0.
  virtual void children(std::uint64_t object, std::size_t level, std::uint64_t unit, std::vector<Unit>& out) const = 0;
  virtual std::uint64_t root(std::uint64_t object) const = 0;

  // The boxes of a unit; of one above the lowest level only where they go is meant.
  virtual void describe(std::uint64_t object, std::size_t level, std::uint64_t unit,
                        transfer::TaskDetail& detail) const = 0;
  virtual bool next_box(transfer::TaskDetail& detail) const = 0;

 protected:
  std::uint64_t units_ = 0, end_ = 0;
};

// Byte distance between neighbours along each axis of a decoded chunk of `shape`.
void strides_in_chunk(std::span<const std::uint8_t> axis_order, std::uint32_t element_bytes, const std::uint64_t* shape,
                      std::int64_t* strides) noexcept;

// `memory`, which outlives it, has the footprint of slices whole, and others in part.
// kUnsupported: points in an array of more than 2^64 chunks. Throws std::bad_alloc.
Result<std::shared_ptr<const Footprint>> make_footprint(
    FootprintInput input, std::pmr::memory_resource* memory = std::pmr::new_delete_resource());
// Of several selections of one array: a chunk that more than one of them touches is one unit. They differ in selection
// and dst..., which `input_at` sets, and no two of them place an element at the same address. What it set is used
// before it is called again. What is allocated does not grow with their number where they are slices. REQUIRES: count >
// 0.
using FootprintInputAt = std::function<Status(std::size_t number, FootprintInput& input)>;
Result<std::shared_ptr<const Footprint>> make_merged_footprint(FootprintInput input, std::size_t count,
                                                               const FootprintInputAt& input_at);

}  // namespace headrace::zarr
