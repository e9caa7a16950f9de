// VerifyPieces: what `headrace verify` reads of an array, some of it at a time.
//
// Where the store can be listed only what is stored is read, so that a sparse array takes as long as its chunks; else
// all of the grid.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace headrace::cli {

struct ArrayBox {
  std::vector<std::uint64_t> start, count;  // elements
  Selection selection() const;
};

class VerifyPieces {
 public:
  // Neither of them is empty.
  explicit VerifyPieces(const Array& array);

  // The next boxes, to be read together; false behind the last.
  bool next(std::vector<ArrayBox>& boxes);
  // Decoded, of the boxes that next() gives at a time, at most. Saturates.
  std::uint64_t most_bytes() const noexcept { return most_bytes_; }
  std::uint64_t bytes_of(const ArrayBox& box) const;
  // Chunks, or shards, that are not stored and in no box.
  std::uint64_t passed_over() const noexcept { return passed_over_; }

 private:
  struct Inside {  // of a box that is read in parts
    ArrayBox box;
    std::vector<std::uint64_t> piece, at;
  };
  std::vector<std::uint64_t> piece_of(const ArrayBox& box) const;
  bool take_box(ArrayBox& box);
  bool take_piece(ArrayBox& piece);

  const ArrayInfo& info_;
  const std::uint64_t item_bytes_;
  std::vector<std::uint64_t> cell_;     // what is stored as one object
  std::optional<StoredChunks> stored_;  // nothing: all of the array is one box
  std::uint64_t cursor_ = 0;            // of stored_, or 1 once that box is taken
  std::optional<ArrayBox> waiting_;     // did not fit the boxes before
  std::optional<Inside> inside_;
  std::uint64_t most_bytes_ = 0, passed_over_ = 0;
};

}  // namespace headrace::cli
