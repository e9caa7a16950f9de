// Footprint: which stored objects and which chunks in them a selection touches, and where their elements go.
//
// There is no list of chunks. An object has a number of the footprint's own; next_object() gives the following one. The
// contents of an object form a tree: the object is its level 0, the chunks of its shard level 1, and if those are
// shards again, their chunks level 2, and so on. Each unit of a level has a number, too.
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

// One level of sharding. Each list has one entry per axis of the array.
struct LevelGrid {
  std::vector<std::uint64_t> shape;      // of a unit, in elements
  std::vector<std::uint64_t> grid;       // units in one unit of the level above
  std::vector<std::uint8_t> axis_order;  // axes in the order of the index above, slowest first
};

struct FootprintInput {
  const ResolvedSelection* selection = nullptr;
  // Kept by the caller, longer than the footprint:
  std::span<const std::uint64_t> object_shape, object_grid;
  std::span<const LevelGrid> levels;          // below the object; empty: the object is one chunk
  std::span<const std::int64_t> src_strides;  // of the smallest unit, decoded; bytes
  // Set instead of object_shape and src_strides if objects differ in shape; there are no levels then.
  std::shared_ptr<const RectilinearGrid> rectilinear = nullptr;
  std::span<const std::uint8_t> axis_order;  // of a decoded object: entry k is its k-th slowest axis
  // Used only during construction:
  std::span<const std::int64_t> dst_strides;  // of the tensor, one per dimension of the result
  std::span<std::byte> dst;                   // its memory; no box reaches beyond it
  std::size_t dst_first = 0;                  // offset of the tensor's first element in dst
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
  // If objects differ in shape, those of one shape are neighbours. Whether the first object has the most elements:
  virtual bool largest_first() const { return true; }
  // One past the last object of this one's shape.
  virtual std::uint64_t shape_end(std::uint64_t object) const { return (void)object, end_; }
  virtual std::uint64_t next_object(std::uint64_t object) const = 0;
  // Position in the grid of objects.
  virtual void position(std::uint64_t object, std::uint64_t* at) const = 0;
  // Appends the touched units of `level` + 1 in `unit` of `level`. An object is unit root(object) of level 0.
  virtual void children(std::uint64_t object, std::size_t level, std::uint64_t unit, std::vector<Unit>& out) const = 0;
  virtual std::uint64_t root(std::uint64_t object) const = 0;

  // Sets the first box of a unit. For a unit above the lowest level only the destination is meaningful.
  virtual void describe(std::uint64_t object, std::size_t level, std::uint64_t unit,
                        transfer::TaskDetail& detail) const = 0;
  virtual bool next_box(transfer::TaskDetail& detail) const = 0;

 protected:
  std::uint64_t units_ = 0, end_ = 0;
};

// Byte distance between neighbours along each axis of a decoded chunk of `shape`.
void strides_in_chunk(std::span<const std::uint8_t> axis_order, std::uint32_t element_bytes, const std::uint64_t* shape,
                      std::int64_t* strides) noexcept;

// `memory` must outlive the result. The footprint of slices is allocated in it completely, others partly.
// kUnsupported: points in an array of more than 2^64 chunks. Throws std::bad_alloc.
Result<std::shared_ptr<const Footprint>> make_footprint(
    FootprintInput input, std::pmr::memory_resource* memory = std::pmr::new_delete_resource());
// Footprint of several selections of one array: a chunk touched by more than one of them is one unit. `input_at` sets
// the selection and the dst... members; the rest is shared. Its result is used before it is called again. No two
// selections may place an element at the same address. For slices, the number of allocations does not grow with
// `count`. REQUIRES: count > 0.
using FootprintInputAt = std::function<Status(std::size_t number, FootprintInput& input)>;
Result<std::shared_ptr<const Footprint>> make_merged_footprint(FootprintInput input, std::size_t count,
                                                               const FootprintInputAt& input_at);

}  // namespace headrace::zarr
