// RateSamples: rates over equal intervals of a job: fio's bw_min, bw_mean, iops_stddev and similar figures.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace headrace::bench {

class RateSamples {
 public:
  void add(double rate) noexcept {
    min_ = count_ == 0 ? rate : std::min(min_, rate);
    max_ = std::max(max_, rate);
    ++count_;
    sum_ += rate;
    squares_ += rate * rate;
  }
  void merge(const RateSamples& other) noexcept {
    if (other.count_ == 0) return;
    min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    count_ += other.count_;
    sum_ += other.sum_;
    squares_ += other.squares_;
  }

  std::uint64_t count() const noexcept { return count_; }
  double min() const noexcept { return min_; }
  double max() const noexcept { return max_; }
  double mean() const noexcept { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double stddev() const noexcept {
    if (count_ < 2) return 0;
    const double count = static_cast<double>(count_);
    return std::sqrt(std::max(0.0, squares_ - sum_ * sum_ / count) / (count - 1));
  }

 private:
  std::uint64_t count_ = 0;
  double min_ = 0, max_ = 0, sum_ = 0, squares_ = 0;
};

}  // namespace headrace::bench
