#include "latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace headrace::bench {

std::size_t LatencyHistogram::bucket_of(std::uint64_t nanoseconds) noexcept {
  const auto width = static_cast<unsigned>(std::bit_width(nanoseconds));
  if (width <= kBits) return static_cast<std::size_t>(nanoseconds);
  const unsigned shift = width - kBits - 1;
  // The position of the top bit selects the power of two, the next kBits bits the bucket in it.
  return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(nanoseconds >> shift);
}

std::uint64_t LatencyHistogram::middle(std::size_t bucket) noexcept {
  if (bucket < std::size_t{2} << kBits) return bucket;
  const auto shift = static_cast<unsigned>((bucket >> kBits) - 1);
  const std::uint64_t first = static_cast<std::uint64_t>(bucket - (static_cast<std::size_t>(shift) << kBits)) << shift;
  return first + (std::uint64_t{1} << shift) / 2;
}

void LatencyHistogram::add(std::uint64_t nanoseconds) noexcept {
  ++buckets_[bucket_of(nanoseconds)];
  ++count_;
  min_ = std::min(min_, nanoseconds);
  max_ = std::max(max_, nanoseconds);
  const double distance = static_cast<double>(nanoseconds) - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (static_cast<double>(nanoseconds) - mean_);
}

void LatencyHistogram::merge(const LatencyHistogram& other) noexcept {
  if (other.count_ == 0) return;
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  const double ours = static_cast<double>(count_), theirs = static_cast<double>(other.count_);
  const double distance = other.mean_ - mean_;
  mean_ += distance * theirs / (ours + theirs);
  squares_ += other.squares_ + distance * distance * ours * theirs / (ours + theirs);
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double LatencyHistogram::stddev() const noexcept {
  return count_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(count_ - 1));
}

std::uint64_t LatencyHistogram::percentile(double percent) const noexcept {
  if (count_ == 0) return 0;
  const auto wanted =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(percent / 100 * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= wanted) return std::clamp(middle(i), min_, max_);
  }
  return max_;
}

}  // namespace headrace::bench
