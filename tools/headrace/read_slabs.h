// ReadSlabs: a selection in parts that fit a budget of memory, for `headrace read` into a file or a hash.
//
// A part takes whole rows of chunks along the result's first axis, or, where one such row is larger than the budget,
// a part of it along the later axes, so that each chunk is decoded once. Where the parts have to follow one another in
// C order, as a pipe wants them, a row of chunks that does not fit is read in thinner parts and its chunks are decoded
// for each of them.
//
// Elements of variable length follow one another in C order, and what they take is a guess until they have been read:
// expect() and narrow() correct it, and the parts that follow are chosen by what is known then.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>

#include <cstdint>
#include <vector>

namespace headrace::cli {

struct ReadSlab {
  Selection selection;
  std::vector<std::uint64_t> start, shape;  // of the result
  std::uint64_t bytes = 0;
};

class ReadSlabs {
 public:
  // `item_bytes`: of the result's elements; of variable length: a guess. A part is larger than the budget only where a
  // single chunk is.
  ReadSlabs(const ArrayInfo& info, Selection selection, ResolvedSelection resolved, std::uint64_t item_bytes,
            std::uint64_t budget_bytes, bool in_order);

  // The next part; false behind the last. There is at least one.
  bool next(ReadSlab& slab);
  // Of variable length only. Elements take about so many bytes: the parts from the next one on are chosen by it.
  void expect(std::uint64_t item_bytes);
  // Likewise: `slab`, which next() gave last, takes more than the budget. It becomes a smaller part that begins where
  // it begins; false where it has no more elements than a chunk, which no part has to be smaller than.
  bool narrow(ReadSlab& slab);
  std::uint64_t item_bytes() const noexcept { return item_bytes_; }
  std::uint64_t most_bytes() const noexcept { return most_bytes_; }
  bool one() const noexcept { return one_; }
  // Whether the parts' elements follow one another in C order.
  bool in_order() const noexcept { return cut_axis_ == 0 || in_order_; }

 private:
  // An axis of the result.
  struct Axis {
    std::size_t dim = 0;  // of the array
    std::uint64_t count = 0;
    std::uint64_t cell = 0;        // length of a chunk, or of a shard; 0: the parts need not end where one ends
    std::uint64_t row = 0;         // elements of one cell, at most
    std::uint64_t most = 0;        // elements of a part
    std::uint64_t at = 0, to = 0;  // of the part
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
  std::size_t cut_axis_ = 0;  // before it parts have one row of cells, behind it everything
  std::uint64_t most_bytes_ = 0;
  bool one_ = false, begun_ = false;
};

}  // namespace headrace::cli
