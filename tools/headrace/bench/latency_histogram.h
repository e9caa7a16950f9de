// LatencyHistogram: durations in logarithmic buckets, 64 per power of two, so that a percentile is within 1 % of its
// true value at any magnitude. Fixed size; adding does not allocate.
//
// Threads: one at a time; each thread keeps its own, to be merged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headrace::bench {

class LatencyHistogram {
 public:
  void add(std::uint64_t nanoseconds) noexcept;
  void merge(const LatencyHistogram& other) noexcept;

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const noexcept { return max_; }
  double mean() const noexcept { return mean_; }
  double stddev() const noexcept;  // of the samples
  // The value that `percent` % of the samples do not exceed; 0 without samples. REQUIRES: 0 < percent <= 100.
  std::uint64_t percentile(double percent) const noexcept;

  // Calls visit(middle of the bucket in nanoseconds, samples) for each non-empty bucket, in order.
  template <class Visit>
  void for_each_bucket(Visit&& visit) const {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (buckets_[i] != 0) visit(middle(i), buckets_[i]);
    }
  }

 private:
  static constexpr unsigned kBits = 6;
  static constexpr std::size_t kBuckets = (64 - kBits + 1) << kBits;
  static std::size_t bucket_of(std::uint64_t nanoseconds) noexcept;
  static std::uint64_t middle(std::size_t bucket) noexcept;

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0;
  double mean_ = 0, squares_ = 0;  // squares_: sum of squared distances from the mean
};

}  // namespace headrace::bench
