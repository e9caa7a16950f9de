#include "loader/sampling/alias_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "loader/sampling/sampling_parts.h"

namespace headrace::loader {
namespace {

constexpr std::uint64_t kMaxWeights = std::uint64_t{1} << 31;
// Flag in Column::alias during construction: the column is final.
constexpr std::uint64_t kDone = std::uint64_t{1} << 63;

}  // namespace

Result<AliasTable> AliasTable::create(std::span<const double> weights, std::shared_ptr<base::MemoryBudget> budget) {
  const std::uint64_t n = weights.size();
  if (n == 0) return refuse("weights: there are none");
  if (n > kMaxWeights) return refuse("weights: " + std::to_string(n) + " of them, at most 2^31");
  double largest = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      return refuse("weights: number " + std::to_string(i) + " is negative, infinite or NaN");
    }
    largest = std::max(largest, weights[i]);
  }
  if (largest == 0) return refuse("weights: all are 0");
  AliasTable table;
  table.charge_ = base::Charge(std::move(budget));
  HEADRACE_TRY(table.charge_.take(bytes_of(n), "the table of weights of " + std::to_string(n) + " samples"));
  table.columns_.resize(n);
  // Converts the weights to integers whose sum stays below 2^63. Scaling by powers of two is exact and the division is
  // correctly rounded, so the result is the same everywhere.
  const int bits = 62 - static_cast<int>(std::bit_width(n - 1));
  for (std::uint64_t i = 0; i < n; ++i) {
    const double scaled = std::ldexp(weights[i] / largest, bits);
    const auto units = static_cast<std::uint64_t>(std::nearbyint(scaled));
    table.columns_[i].threshold = std::max<std::uint64_t>(units, weights[i] > 0 ? 1 : 0);
    table.total_ += table.columns_[i].threshold;
  }
  table.fill();
  return table;
}

// Number i has its weight times n units, and each of the n columns has room for `total_` units. A number with too few
// for its column leaves the rest of the column to a number with too many. This works in place: a column holds its
// number's units in its two words until it is done. All units together fill all columns exactly, so the columns left at
// the end are exactly full.
void AliasTable::fill() noexcept {
  const std::uint64_t n = columns_.size();
  const auto units = [&](std::uint64_t i) {
    return static_cast<U128>(columns_[i].alias) << 64 | columns_[i].threshold;
  };
  const auto set_units = [&](std::uint64_t i, U128 value) {
    columns_[i] = {static_cast<std::uint64_t>(value), static_cast<std::uint64_t>(value >> 64)};
  };
  const auto done = [&](std::uint64_t i) { return (columns_[i].alias & kDone) != 0; };
  for (std::uint64_t i = 0; i < n; ++i) set_units(i, static_cast<U128>(columns_[i].threshold) * n);
  std::uint64_t large = 0, next_small = 0;
  const auto skip_to_large = [&] {
    while (large < n && (done(large) || units(large) < total_)) ++large;
  };
  const auto skip_to_small = [&] {
    while (next_small < n && (done(next_small) || units(next_small) >= total_)) ++next_small;
  };
  skip_to_large();
  skip_to_small();
  for (std::uint64_t small = next_small; small < n && large < n;) {
    const U128 has = units(small);
    set_units(large, units(large) - (total_ - has));
    columns_[small] = {static_cast<std::uint64_t>(has), large | kDone};
    if (units(large) < total_ && large < next_small) {
      small = large;  // it is small now, and the search for small ones has passed it
      skip_to_large();
    } else {
      skip_to_large();
      skip_to_small();
      small = next_small;
    }
  }
  for (std::uint64_t i = 0; i < n; ++i) {
    columns_[i] = done(i) ? Column{columns_[i].threshold, columns_[i].alias & ~kDone} : Column{total_, i};
  }
}

std::uint64_t AliasTable::draw(std::uint64_t column, std::uint64_t height) const noexcept {
  const std::uint64_t at = scale_to(column, columns_.size());
  return scale_to(height, total_) < columns_[at].threshold ? at : columns_[at].alias;
}

AliasTable::Shares AliasTable::shares() const {
  Shares shares{std::vector<U128>(columns_.size()), static_cast<U128>(total_) * columns_.size()};
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    shares.units[i] += columns_[i].threshold;
    shares.units[columns_[i].alias] += total_ - columns_[i].threshold;
  }
  return shares;
}

std::uint64_t AliasTable::digest() const noexcept {
  Digest digest;
  digest.add(total_);
  for (const Column& column : columns_) digest.add(column.threshold).add(column.alias);
  return digest.value();
}

}  // namespace headrace::loader
