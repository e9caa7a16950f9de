// Projection: the intersection of one dimension of a selection with one dimension of a chunk grid.
//
// A dimension's selected elements form pieces: one for a slice, many for a list. Slices are plain arithmetic, so any
// chunk of any slice is found without a list of chunks. A list takes memory for its own length, whatever the size of
// the grid.
#pragma once

#include <headrace/selection.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "zarr/select/index_runs.h"

namespace headrace::zarr {

// Elements in equal steps, both in the chunk and in the result.
struct Intersection {
  std::uint64_t count = 0;      // selected elements inside the chunk
  std::uint64_t in_chunk = 0;   // first of them, relative to the chunk
  std::uint64_t in_result = 0;  // first of them, relative to the selection
};

// Consecutive pieces of a Projection.
struct Pieces {
  std::uint64_t first = 0, count = 0;
};

class Projection {
 public:
  // REQUIRES: chunk > 0 unless the selection is empty; `runs` are those of selection.list, null if there is none.
  Projection(const ResolvedSelection::Dim& selection, std::uint64_t chunk,
             std::shared_ptr<const IndexRuns> runs = nullptr)
      : start_(selection.start),
        count_(selection.count),
        step_(selection.step),
        chunk_(std::max<std::uint64_t>(chunk, 1)),
        runs_(std::move(runs)) {
    if (count_ == 0) return;
    if (runs_ != nullptr) {
      list_chunks();
      return;
    }
    first_chunk_ = start_ / chunk_;
    const std::uint64_t last = (start_ + (count_ - 1) * step_) / chunk_;
    // A step longer than a chunk skips chunks; every selected element then lies in a chunk of its own.
    sparse_ = step_ > chunk_;
    touched_ = sparse_ ? count_ : last - first_chunk_ + 1;
  }

  std::uint64_t touched() const noexcept { return touched_; }  // chunks that hold at least one selected element
  std::uint64_t chunk_at(std::uint64_t i) const noexcept {     // grid index of the i-th of them, ascending
    if (sparse_) return (start_ + i * step_) / chunk_;
    return chunks_.empty() ? first_chunk_ + i : chunks_[static_cast<std::size_t>(i)];
  }
  // How many touched chunks lie before this chunk of the grid.
  std::uint64_t before(std::uint64_t chunk) const noexcept {
    if (runs_ != nullptr) {
      return static_cast<std::uint64_t>(std::lower_bound(chunks_.begin(), chunks_.end(), chunk) - chunks_.begin());
    }
    if (sparse_) return std::min(touched_, intersect(chunk * chunk_, 1).in_result);
    return chunk <= first_chunk_ ? 0 : std::min(touched_, chunk - first_chunk_);
  }

  // Pieces with elements in the span [begin, begin + length).
  Pieces pieces(std::uint64_t begin, std::uint64_t length) const noexcept {
    if (runs_ == nullptr) return {0, intersect(begin, length).count > 0 ? std::uint64_t{1} : std::uint64_t{0}};
    const auto first =
        std::partition_point(runs_->begin(), runs_->end(), [begin](const IndexRun& run) { return run.last() < begin; });
    // A run may step over the whole span. It is then the only one found.
    auto end = first;
    if (runs_->end() - first > kNear && first[kNear].begin < begin + length) {
      end = std::partition_point(first + kNear, runs_->end(),
                                 [&](const IndexRun& run) { return run.begin < begin + length; });
    } else {
      while (end != runs_->end() && end->begin < begin + length) ++end;
    }
    Pieces out{static_cast<std::uint64_t>(first - runs_->begin()), static_cast<std::uint64_t>(end - first)};
    if (out.count > 0 && piece(out.first, begin, length).count == 0) ++out.first, --out.count;
    return out;
  }
  Intersection piece(std::uint64_t number, std::uint64_t begin, std::uint64_t length) const noexcept {
    if (runs_ == nullptr) return intersect(begin, length);
    const IndexRun& run = (*runs_)[static_cast<std::size_t>(number)];
    std::uint64_t skipped = 0, stop = run.count;
    if (run.step > 0) {
      skipped = begin <= run.begin ? 0 : base::ceil_div(begin - run.begin, run.step);
      stop = std::min(stop, base::ceil_div(begin + length - run.begin, run.step));
    }
    Intersection out;
    out.count = stop > skipped ? stop - skipped : 0;
    out.in_chunk = run.begin + skipped * run.step - begin;
    out.in_result = run.in_result + skipped * static_cast<std::uint64_t>(run.result_step);
    return out;
  }
  // Distance between neighbouring elements of a piece, in the array and in the result.
  std::uint64_t step(std::uint64_t number) const noexcept {
    return runs_ == nullptr ? step_ : (*runs_)[static_cast<std::size_t>(number)].step;
  }
  std::int64_t result_step(std::uint64_t number) const noexcept {
    return runs_ == nullptr ? 1 : (*runs_)[static_cast<std::size_t>(number)].result_step;
  }

  // For slices: their one piece.
  Intersection intersect(std::uint64_t chunk_index) const noexcept { return intersect(chunk_index * chunk_, chunk_); }
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
  static constexpr std::ptrdiff_t kNear = 16;  // runs that are scanned linearly before a binary search

  void list_chunks() {
    for (const IndexRun& run : *runs_) {
      for (std::uint64_t i = 0; i < run.count;) {
        const std::uint64_t chunk = (run.begin + i * run.step) / chunk_;
        if (chunks_.empty() || chunks_.back() != chunk) chunks_.push_back(chunk);
        if (run.step == 0) break;
        // Skip to the first element after this chunk.
        i = std::max(i + 1, base::ceil_div((chunk + 1) * chunk_ - run.begin, run.step));
      }
    }
    chunks_.shrink_to_fit();
    touched_ = chunks_.size();
  }

  std::uint64_t start_, count_, step_, chunk_;
  std::uint64_t first_chunk_ = 0, touched_ = 0;
  bool sparse_ = false;
  std::shared_ptr<const IndexRuns> runs_;  // of the list, if any
  std::vector<std::uint64_t> chunks_;      // touched chunks, if there is a list
};

}  // namespace headrace::zarr
