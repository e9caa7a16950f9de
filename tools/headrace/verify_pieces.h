// VerifyPieces: splits an array into the boxes that `headrace verify` reads.
//
// If the store can be listed, only stored chunks are read, so that the time for a sparse array depends on its chunks;
// otherwise the whole grid is read.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace headrace::cli {

struct ArrayBox {
  std::vector<std::uint64_t> start, count;  // in elements
  Selection selection() const;
};

class VerifyPieces {
 public:
  // REQUIRES: no axis of the array has length 0.
  explicit VerifyPieces(const Array& array);

  // Returns the next boxes, to be read together; false after the last.
  bool next(std::vector<ArrayBox>& boxes);
  // Most decoded bytes of the boxes that one next() returns. Saturates.
  std::uint64_t max_bytes() const noexcept { return max_bytes_; }
  std::uint64_t bytes_of(const ArrayBox& box) const;
  // Chunks or shards that are not stored and so not part of any box.
  std::uint64_t skipped_chunks() const noexcept { return skipped_chunks_; }

 private:
  struct Inside {  // state of a box that is read in parts
    ArrayBox box;
    std::vector<std::uint64_t> piece, at;
  };
  std::vector<std::uint64_t> piece_of(const ArrayBox& box) const;
  bool take_box(ArrayBox& box);
  bool take_piece(ArrayBox& piece);

  const ArrayInfo& info_;
  const std::uint64_t item_bytes_;
  std::vector<std::uint64_t> cell_;     // extent of one stored object
  std::optional<StoredChunks> stored_;  // nullopt: the whole array is one box
  std::uint64_t cursor_ = 0;            // index into stored_, or 1 once the single box is taken
  std::optional<ArrayBox> waiting_;     // a box that did not fit the previous group
  std::optional<Inside> inside_;
  std::uint64_t max_bytes_ = 0, skipped_chunks_ = 0;
};

}  // namespace headrace::cli
