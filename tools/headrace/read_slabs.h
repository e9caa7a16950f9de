// ReadSlabs: splits a selection into parts that fit a memory budget, for `headrace read` to a file or a hash.
//
// A part takes whole rows of chunks along the result's first axis. If one such row exceeds the budget, it is split
// along the later axes, so that each chunk is still decoded once. If the parts must follow each other in C order, as
// for a pipe, a row that exceeds the budget is instead read in thinner parts, and its chunks are decoded for each of
// them.
//
// Elements of variable length are delivered in C order. Their size is a guess until they have been read:
// set_item_bytes() and shrink() correct it, and later parts are chosen accordingly.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>

#include <cstdint>
#include <vector>

namespace headrace::cli {

struct ReadSlab {
  Selection selection;
  std::vector<std::uint64_t> start, shape;  // within the result
  std::uint64_t bytes = 0;
};

class ReadSlabs {
 public:
  // `item_bytes`: size of the result's elements; for variable length, a guess. A part exceeds the budget only if a
  // single chunk does.
  ReadSlabs(const ArrayInfo& info, Selection selection, ResolvedSelection resolved, std::uint64_t item_bytes,
            std::uint64_t budget_bytes, bool in_order);

  // Returns the next part; false after the last. There is at least one.
  bool next(ReadSlab& slab);
  // Variable length only: sets the expected element size, from which the next parts are chosen.
  void set_item_bytes(std::uint64_t item_bytes);
  // Variable length only: `slab`, the last part returned by next(), exceeds the budget. Shrinks it, keeping its start;
  // returns false if it has no more elements than a chunk, the smallest size of a part.
  bool shrink(ReadSlab& slab);
  std::uint64_t item_bytes() const noexcept { return item_bytes_; }
  std::uint64_t max_bytes() const noexcept { return max_bytes_; }
  bool one() const noexcept { return one_; }
  // Whether the elements of consecutive parts are in C order.
  bool in_order() const noexcept { return cut_axis_ == 0 || in_order_; }

 private:
  // An axis of the result.
  struct Axis {
    std::size_t dim = 0;  // dimension of the array
    std::uint64_t count = 0;
    std::uint64_t cell = 0;        // extent of a chunk or shard; 0: parts need not end at its boundaries
    std::uint64_t row = 0;         // most elements in one cell
    std::uint64_t most = 0;        // elements in a part
    std::uint64_t at = 0, to = 0;  // range of the current part
  };
  void measure(Axis& axis) const;
  void choose_parts();
  std::uint64_t chunk_bytes() const;
  void describe(ReadSlab& slab) const;
  std::uint64_t cell_of(const Axis& axis, std::uint64_t i) const;
  std::uint64_t end_of_row(const Axis& axis) const;
  std::uint64_t last_boundary(const Axis& axis, std::uint64_t to) const;
  void begin_part(std::size_t axis);
  Selection part() const;

  const Selection selection_;
  const ResolvedSelection resolved_;
  const std::uint64_t budget_bytes_;
  const bool variable_, in_order_;
  std::uint64_t item_bytes_;
  std::vector<Axis> axes_;
  std::size_t cut_axis_ = 0;  // parts have one row of cells along earlier axes, and the full extent of later ones
  std::uint64_t max_bytes_ = 0;
  bool one_ = false, begun_ = false;
};

}  // namespace headrace::cli
