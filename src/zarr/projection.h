// Projection: where one dimension of a selection meets one dimension of a chunk grid.
//
// Plain arithmetic, so that any chunk of any selection is found without a list of chunks.
#pragma once

#include <headrace/selection.h>

#include <algorithm>
#include <cstdint>

#include "base/checked.h"

namespace headrace::zarr {

struct Intersection {
  std::uint64_t count = 0;      // selected elements inside the chunk
  std::uint64_t in_chunk = 0;   // first of them, relative to the chunk
  std::uint64_t in_result = 0;  // first of them, relative to the selection
};

class Projection {
 public:
  // REQUIRES: chunk > 0 unless the selection is empty.
  Projection(const ResolvedSelection::Dim& selection, std::uint64_t chunk) noexcept
      : start_(selection.start),
        count_(selection.count),
        step_(selection.step),
        chunk_(std::max<std::uint64_t>(chunk, 1)) {
    if (count_ == 0) return;
    first_chunk_ = start_ / chunk_;
    const std::uint64_t last = (start_ + (count_ - 1) * step_) / chunk_;
    // A step longer than a chunk jumps over chunks: then every selected element has a chunk of its own.
    sparse_ = step_ > chunk_;
    touched_ = sparse_ ? count_ : last - first_chunk_ + 1;
  }

  std::uint64_t touched() const noexcept { return touched_; }  // chunks that hold at least one selected element
  std::uint64_t chunk_at(std::uint64_t i) const noexcept {     // grid index of the i-th of them
    return sparse_ ? (start_ + i * step_) / chunk_ : first_chunk_ + i;
  }
  Intersection intersect(std::uint64_t chunk_index) const noexcept { return intersect(chunk_index * chunk_, chunk_); }
  // The same for any span of elements.
  Intersection intersect(std::uint64_t begin, std::uint64_t length) const noexcept {
    Intersection out;
    const std::uint64_t end = begin + length;
    out.in_result = begin <= start_ ? 0 : base::ceil_div(begin - start_, step_);
    const std::uint64_t stop = end <= start_ ? 0 : std::min(count_, base::ceil_div(end - start_, step_));
    out.count = stop > out.in_result ? stop - out.in_result : 0;
    if (out.count > 0) out.in_chunk = start_ + out.in_result * step_ - begin;
    return out;
  }
  std::uint64_t step() const noexcept { return step_; }

 private:
  std::uint64_t start_, count_, step_, chunk_;
  std::uint64_t first_chunk_ = 0, touched_ = 0;
  bool sparse_ = false;
};

}  // namespace headrace::zarr
