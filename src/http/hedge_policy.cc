#include "http/hedge_policy.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kOne = 64;              // ratio 1 as a fixed-point number; each power of two has four buckets
constexpr std::uint64_t kMinRatio = kOne / 16;  // 4: the smallest power of two that divides into four
constexpr std::uint64_t kMaxTime = std::uint64_t{1} << 50;

// Upper bound of a bucket, in 1/kOne.
std::uint64_t upper_of(std::size_t bucket) noexcept {
  const std::uint64_t power = kMinRatio << (bucket / 4);
  return power + power / 4 * (bucket % 4 + 1);
}

}  // namespace

void HedgePolicy::answered(std::uint64_t took_ns, std::uint64_t expected_ns) noexcept {
  const std::uint64_t took = std::min(took_ns, kMaxTime),
                      expected = std::clamp<std::uint64_t>(expected_ns, 1, kMaxTime);
  const std::uint64_t ratio = std::max(took * kOne / expected, kMinRatio);
  const auto power = static_cast<std::size_t>(std::bit_width(ratio / kMinRatio) - 1);
  const std::uint64_t base = kMinRatio << power;
  const std::size_t bucket = std::min(power * 4 + static_cast<std::size_t>((ratio - base) / (base / 4)), kBuckets - 1);
  ++counts_[bucket];
  ++counted_;
  seen_ = std::min(seen_ + 1, kMinAnswers);
  saved_ = std::min(saved_ + kPerThousand, kMaxSaved * 1000);
  if (counted_ < kMaxCounted) return;
  counted_ = 0;
  for (std::uint32_t& count : counts_) counted_ += count /= 2;
}

// A quantile of the ratios: the upper bound of its bucket.
std::uint64_t HedgePolicy::ratio_at(std::uint32_t per_thousand) const noexcept {
  const std::uint64_t wanted = base::ceil_div(std::uint64_t{counted_} * per_thousand, std::uint64_t{1000});
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= wanted) return upper_of(i);
  }
  return upper_of(kBuckets - 1);
}

std::optional<std::uint64_t> HedgePolicy::late_after(std::uint64_t expected_ns) const noexcept {
  if (seen_ < kMinAnswers) return std::nullopt;
  const std::uint64_t ratio = std::min(ratio_at(950), std::max(ratio_at(900), 2 * ratio_at(500)));
  return std::max(std::min(expected_ns, kMaxTime) / kOne * ratio, kMinNs);
}

bool HedgePolicy::take(std::uint64_t now_ns) noexcept {
  if (now_ns < quiet_until_ns_ || saved_ < 1000) return false;
  saved_ -= 1000;
  return true;
}

}  // namespace headrace::http
