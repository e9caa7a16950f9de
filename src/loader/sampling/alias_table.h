// AliasTable: draws of one of n numbers with given weights, in constant time.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "loader/sampling/counter_random.h"

namespace headrace::loader {

// Walker's method as Vose builds it, in integers: whatever the machine, the same draws.
//
// Threads: immutable once made.
class AliasTable {
 public:
  // kInvalidArgument: no weights, more than 2^31, one that is negative or not finite, or all 0. kResourceExhausted: the
  // budget has no bytes_of(weights.size()). Throws std::bad_alloc.
  static Result<AliasTable> create(std::span<const double> weights, std::shared_ptr<base::MemoryBudget> budget);
  static std::uint64_t bytes_of(std::uint64_t weights) noexcept { return weights * sizeof(Column); }

  // For two random words.
  std::uint64_t draw(std::uint64_t column, std::uint64_t height) const noexcept;
  std::uint64_t digest() const noexcept;

  // Of `total` random units in all columns, how many give each number. For tests. Throws std::bad_alloc.
  struct Shares {
    std::vector<U128> units;
    U128 total = 0;
  };
  Shares shares() const;

 private:
  // A column of `total_` units: those below `threshold` are the column's own number, the others the alias's.
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
