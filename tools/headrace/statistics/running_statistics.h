// RunningStatistics: what one pass over numbers tells of them.
//
// Threads: a value; one thread at a time. Throws std::bad_alloc.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace headrace::cli {

// Quantiles of a stream in memory that grows with the logarithm of its length.
//
// Numbers are collected in levels of kLevel; a full level is sorted, and every other number of it goes to the next one,
// where it stands for twice as many (Manku, Rajagopalan, Lindsay 1998). Of n numbers, a quantile's rank is off by at
// most n * levels / (2 * kLevel): by 0.2 % for a billion.
class QuantileSketch {
 public:
  static constexpr std::size_t kLevel = 4096;

  void add(std::span<const double> numbers);  // none is NaN
  void merge(const QuantileSketch& other);
  // 0 <= share <= 1: 0.5 is the median. NaN of no numbers.
  double quantile(double share) const;

 private:
  void compact(std::size_t level);

  std::vector<std::vector<double>> levels_;  // a number of level i stands for 2^i
  std::uint64_t compactions_ = 0;            // which half is kept takes turns
};

class RunningStatistics {
 public:
  explicit RunningStatistics(bool with_quantiles = false) : with_quantiles_(with_quantiles) {}

  void add(std::span<const double> numbers);
  void merge(RunningStatistics other);
  void flush();  // before anything is asked for

  std::uint64_t count() const noexcept { return count_; }      // that are no NaN
  std::uint64_t missing() const noexcept { return missing_; }  // NaN
  // NaN of no numbers. std: of the numbers themselves, divided by their count.
  double mean() const noexcept;
  double std() const noexcept;
  double min() const noexcept;
  double max() const noexcept;
  double quantile(double share) const;  // QuantileSketch; of 0 and 1 the extremes

 private:
  void add_blocks(std::span<const double> numbers);
  void add_block(std::span<const double> numbers);  // no NaN
  void merge_moments(std::uint64_t count, double mean, double squares) noexcept;

  bool with_quantiles_;
  std::uint64_t count_ = 0, missing_ = 0;
  double mean_ = 0, squares_ = 0;  // squares: sum of squared distances from the mean
  double min_ = std::numeric_limits<double>::infinity(), max_ = -std::numeric_limits<double>::infinity();
  QuantileSketch sketch_;
  std::vector<double> few_;  // a block's work is not worth its trouble for less
};

}  // namespace headrace::cli
