// AliasTable: draws one of n numbers with given weights, in constant time.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "loader/sampling/counter_random.h"

namespace headrace::loader {

// Walker's alias method as built by Vose, in integers, so that all machines draw the same.
//
// Threads: immutable once made.
class AliasTable {
 public:
  // kInvalidArgument: no weights, more than 2^31, a negative or non-finite one, or all 0. kResourceExhausted: the
  // budget lacks bytes_of(weights.size()). Throws std::bad_alloc.
  static Result<AliasTable> create(std::span<const double> weights, std::shared_ptr<base::MemoryBudget> budget);
  static std::uint64_t bytes_of(std::uint64_t weights) noexcept { return weights * sizeof(Column); }

  // Draws a number, given two random words.
  std::uint64_t draw(std::uint64_t column, std::uint64_t height) const noexcept;
  std::uint64_t digest() const noexcept;

  // How many of the `total` units in all columns stand for each number. For tests. Throws std::bad_alloc.
  struct Shares {
    std::vector<U128> units;
    U128 total = 0;
  };
  Shares shares() const;

 private:
  // A column of `total_` units: those below `threshold` stand for the column's own number, the others for the alias.
  struct Column {
    std::uint64_t threshold = 0;
    std::uint64_t alias = 0;
  };
  void fill() noexcept;

  std::vector<Column> columns_;
  std::uint64_t total_ = 0;
  base::Charge charge_;
};

}  // namespace headrace::loader
