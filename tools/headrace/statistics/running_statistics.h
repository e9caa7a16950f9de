// RunningStatistics: one-pass statistics of numbers.
//
// Threads: a value type; one thread at a time. Throws std::bad_alloc.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace headrace::cli {

// Approximate quantiles of a stream, in memory that grows with the logarithm of its length.
//
// Numbers are collected in levels of kLevel numbers. A full level is sorted, and every other number moves to the next
// level, where it counts twice as much (Manku, Rajagopalan, Lindsay 1998). For n numbers, the rank of a quantile is off
// by at most n * levels / (2 * kLevel): 0.2 % for a billion.
class QuantileSketch {
 public:
  static constexpr std::size_t kLevel = 4096;

  void add(std::span<const double> numbers);  // must not contain NaN
  void merge(const QuantileSketch& other);
  // 0 <= share <= 1; 0.5 is the median. NaN if there are no numbers.
  double quantile(double share) const;

 private:
  void compact(std::size_t level);

  std::vector<std::vector<double>> levels_;  // a number in level i represents 2^i numbers
  std::uint64_t compactions_ = 0;            // alternates which half is kept
};

class RunningStatistics {
 public:
  explicit RunningStatistics(bool with_quantiles = false) : with_quantiles_(with_quantiles) {}

  void add(std::span<const double> numbers);
  void merge(RunningStatistics other);
  void flush();  // must be called before any query

  std::uint64_t count() const noexcept { return count_; }      // numbers other than NaN
  std::uint64_t missing() const noexcept { return missing_; }  // number of NaN
  // NaN if there are no numbers. std is the population standard deviation (divided by the count).
  double mean() const noexcept;
  double std() const noexcept;
  double min() const noexcept;
  double max() const noexcept;
  double quantile(double share) const;  // by QuantileSketch; 0 and 1 give the exact extremes

 private:
  void add_blocks(std::span<const double> numbers);
  void add_block(std::span<const double> numbers);  // must not contain NaN
  void merge_moments(std::uint64_t count, double mean, double squares) noexcept;

  bool with_quantiles_;
  std::uint64_t count_ = 0, missing_ = 0;
  double mean_ = 0, squares_ = 0;  // squares: sum of squared distances from the mean
  double min_ = std::numeric_limits<double>::infinity(), max_ = -std::numeric_limits<double>::infinity();
  QuantileSketch sketch_;
  std::vector<double> few_;  // buffer, because processing a block pays off only for more numbers
};

}  // namespace headrace::cli
