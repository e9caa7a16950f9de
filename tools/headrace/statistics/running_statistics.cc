#include "statistics/running_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace headrace::cli {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kBlock = 4096;  // fits the L1 cache
constexpr std::size_t kFew = 64, kCollected = 512;

// Uses several independent sums, which is faster and more accurate than one.
template <class Function>
double sum_of(std::span<const double> numbers, const Function& function) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= numbers.size(); i += sums.size()) {
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += function(numbers[i + k]);
  }
  for (; i < numbers.size(); ++i) sums[i % sums.size()] += function(numbers[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

}  // namespace

void QuantileSketch::add(std::span<const double> numbers) {
  if (levels_.empty()) levels_.emplace_back();
  while (!numbers.empty()) {
    std::vector<double>& first = levels_[0];
    const std::size_t some = std::min(numbers.size(), kLevel - first.size());
    first.insert(first.end(), numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(some));
    numbers = numbers.subspan(some);
    if (first.size() == kLevel) compact(0);
  }
}

void QuantileSketch::compact(std::size_t level) {
  for (; levels_[level].size() >= kLevel; ++level) {
    if (level + 1 == levels_.size()) levels_.emplace_back();
    std::vector<double> full = std::exchange(levels_[level], {});
    std::sort(full.begin(), full.end());
    // A number without a partner stays, so that the weights add up to the count.
    if (full.size() % 2 != 0) {
      levels_[level].push_back(full.back());
      full.pop_back();
    }
    for (std::size_t i = compactions_++ % 2; i < full.size(); i += 2) levels_[level + 1].push_back(full[i]);
  }
}

void QuantileSketch::merge(const QuantileSketch& other) {
  if (levels_.size() < other.levels_.size()) levels_.resize(other.levels_.size());
  for (std::size_t level = 0; level < other.levels_.size(); ++level) {
    levels_[level].insert(levels_[level].end(), other.levels_[level].begin(), other.levels_[level].end());
    compact(level);
  }
}

double QuantileSketch::quantile(double share) const {
  std::vector<std::pair<double, std::uint64_t>> weighted;
  std::uint64_t all = 0;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const std::uint64_t weight = std::uint64_t{1} << level;
    for (const double number : levels_[level]) weighted.emplace_back(number, weight);
    all += weight * levels_[level].size();
  }
  if (weighted.empty()) return kNothing;
  std::sort(weighted.begin(), weighted.end());
  const auto rank = static_cast<std::uint64_t>(std::llround(share * static_cast<double>(all - 1)));
  std::uint64_t before = 0;
  for (const auto& [number, weight] : weighted) {
    before += weight;
    if (before > rank) return number;
  }
  return weighted.back().first;
}

void RunningStatistics::add(std::span<const double> numbers) {
  if (numbers.size() >= kFew) {
    add_blocks(numbers);
    return;
  }
  few_.insert(few_.end(), numbers.begin(), numbers.end());
  if (few_.size() >= kCollected) flush();
}

void RunningStatistics::flush() {
  add_blocks(few_);
  few_.clear();
}

void RunningStatistics::add_blocks(std::span<const double> numbers) {
  std::array<double, kBlock> block;
  while (!numbers.empty()) {
    const auto some = numbers.first(std::min(numbers.size(), kBlock));
    numbers = numbers.subspan(some.size());
    std::size_t count = 0;
    for (const double number : some) {
      block[count] = number;
      count += number == number ? 1 : 0;
    }
    missing_ += some.size() - count;
    if (count > 0) add_block({block.data(), count});
  }
}

void RunningStatistics::add_block(std::span<const double> numbers) {
  const double mean = sum_of(numbers, [](double number) { return number; }) / static_cast<double>(numbers.size());
  merge_moments(numbers.size(), mean,
                sum_of(numbers, [mean](double number) { return (number - mean) * (number - mean); }));
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  min_ = std::min(min_, *low);
  max_ = std::max(max_, *high);
  if (with_quantiles_) sketch_.add(numbers);
}

// Combines sums of squares of parts (Chan, Golub, LeVeque 1979).
void RunningStatistics::merge_moments(std::uint64_t count, double mean, double squares) noexcept {
  const auto mine = static_cast<double>(count_), others = static_cast<double>(count), all = mine + others;
  const double apart = mean - mean_;
  mean_ += apart * (others / all);
  squares_ += squares + apart * apart * (mine * (others / all));
  count_ += count;
}

void RunningStatistics::merge(RunningStatistics other) {
  other.flush();
  missing_ += other.missing_;
  if (other.count_ == 0) return;
  merge_moments(other.count_, other.mean_, other.squares_);
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  if (with_quantiles_) sketch_.merge(other.sketch_);
}

double RunningStatistics::mean() const noexcept { return count_ > 0 ? mean_ : kNothing; }
double RunningStatistics::std() const noexcept {
  return count_ > 0 ? std::sqrt(squares_ / static_cast<double>(count_)) : kNothing;
}
double RunningStatistics::min() const noexcept { return count_ > 0 ? min_ : kNothing; }
double RunningStatistics::max() const noexcept { return count_ > 0 ? max_ : kNothing; }
double RunningStatistics::quantile(double share) const {
  return share <= 0 ? min() : share >= 1 ? max() : sketch_.quantile(share);
}

}  // namespace headrace::cli
