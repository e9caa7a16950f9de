#include "http/link_model.h"

#include <algorithm>

#include "base/checked.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMaxNs = 100 * kSecond, kMaxBodyNs = 3600 * kSecond;
constexpr std::uint64_t kMiB = 1 << 20, kMinPace = kSecond / 102'400, kMaxPace = kMiB * (kSecond / 1000);
constexpr std::uint64_t kMaxFactor = 4;  // a sample is clamped to this factor of the known value
constexpr std::uint64_t kWeight = 8;     // a sample moves the mean by an eighth of the difference
// When responses queue for each other, at the server or here, the wait is not latency. The smallest samples are closest
// to the latency, so larger ones weigh 1/16 as much.
constexpr std::uint64_t kSlower = 16;
constexpr std::uint64_t kGroupTimes = 4;   // the latency is then a fifth of a group's time
constexpr std::uint64_t kWindowTimes = 2;  // for each connection, one group in flight and one to follow

// Bytes transferred in `ns` at `rate` bytes a second. Within the limits above nothing overflows.
std::uint64_t carried(std::uint64_t rate, std::uint64_t ns) noexcept {
  return rate / kSecond * ns + rate % kSecond * (ns / 1000) / (kSecond / 1000);
}

std::uint64_t ns_per_mib(std::uint64_t ns, std::uint64_t bytes) noexcept {
  return base::saturating_mul(ns, kMiB) / std::max<std::uint64_t>(bytes, 1);
}

// The updated mean, with little weight on outliers: 5 % of responses that take ten times as long must not count as
// latency. `upwards`: the factor by which larger samples weigh less than smaller ones.
std::uint64_t moved(std::uint64_t known, std::uint64_t sample, std::uint64_t upwards) noexcept {
  const std::uint64_t kept = std::clamp(sample, known / kMaxFactor, known * kMaxFactor);
  const std::uint64_t slower = kWeight * upwards;
  return kept >= known ? known + (kept - known + slower - 1) / slower : known - (known - kept) / kWeight;
}

}  // namespace

void LinkModel::note(const LinkAnswer& answer) noexcept {
  if (answer.asked_ns == 0 || answer.first_ns < answer.asked_ns || answer.end_ns < answer.first_ns) return;
  const std::uint64_t latency = std::clamp<std::uint64_t>(answer.first_ns - answer.asked_ns, 1000, kMaxNs);
  const bool first = !latency_known_.load(std::memory_order_relaxed);
  latency_ns_.store(first ? latency : std::clamp<std::uint64_t>(moved(latency_ns(), latency, kSlower), 1000, kMaxNs),
                    std::memory_order_relaxed);
  latency_known_.store(true, std::memory_order_relaxed);
  if (answer.bytes < kMinSample) return;
  const std::uint64_t body_ns = std::clamp<std::uint64_t>(answer.end_ns - answer.first_ns, 1000, kMaxBodyNs);
  // Bytes that were ready when the response began say nothing about the rate, unless they were all of it.
  const bool at_once = body_ns < 2 * kEarlyNs;
  if (!at_once && answer.late_bytes < kMinSample / 2) return;
  const std::uint64_t all = std::min(answer.bytes, std::uint64_t{1} << 32);
  const std::uint64_t bytes = at_once ? all : std::min(answer.late_bytes, all);
  // A body that arrived at once after a long wait does not prove a fast link either: the wait beyond the known latency
  // counts as transfer time.
  const std::uint64_t waited_ns = latency - std::min(latency, latency_ns());
  const std::uint64_t pace =
      std::clamp(std::max(ns_per_mib(body_ns, bytes), ns_per_mib(body_ns + waited_ns, all)), kMinPace, kMaxPace);
  const bool first_pace = !rate_known_.load(std::memory_order_relaxed);
  pace_.store(first_pace ? pace : std::clamp(moved(pace_.load(std::memory_order_relaxed), pace, 1), kMinPace, kMaxPace),
              std::memory_order_relaxed);
  rate_known_.store(true, std::memory_order_relaxed);
}

std::uint64_t LinkModel::bytes_per_second() const noexcept {
  return kMiB * kSecond / pace_.load(std::memory_order_relaxed);
}

std::uint64_t LinkModel::request_bytes() const noexcept { return carried(bytes_per_second(), latency_ns()); }

std::uint64_t LinkModel::expected_ns(std::uint64_t bytes) const noexcept {
  const std::uint64_t some = std::min(bytes, std::uint64_t{1} << 44);
  return latency_ns() +
         base::saturating_mul(some, kSecond / 1000) / std::max<std::uint64_t>(bytes_per_second() / 1000, 1);
}

base::ReadShape LinkModel::shape_of(std::uint64_t latency_ns, std::uint64_t rate, bool rate_known,
                                    std::uint32_t connections) const noexcept {
  const std::uint64_t worth = carried(rate, latency_ns);
  base::ReadShape shape;
  shape.max_group_bytes = limits_.group_bytes.value_or(kMaxGroup);
  shape.group_bytes =
      limits_.group_bytes.value_or(std::clamp(base::saturating_mul(worth, kGroupTimes), kMinGroup, kMaxGroup));
  // Reading gaps wastes a narrow link that others share, and until a rate is known the link may be narrow.
  shape.gap_bytes = limits_.gap_bytes.value_or(std::clamp(worth, kMinGap, rate_known ? kMaxGap : kMaxFirstGap));
  shape.window_bytes =
      base::saturating_mul(base::saturating_mul(connections, kWindowTimes), std::max(worth, std::uint64_t{kMinGroup}));
  shape.requests = connections;
  shape.tells_lengths = true;
  return shape;
}

base::ReadShape LinkModel::shape(std::uint32_t connections) const noexcept {
  return shape_of(latency_ns(), bytes_per_second(), rate_known_.load(std::memory_order_relaxed), connections);
}

base::ReadShape LinkModel::first_shape(std::uint32_t connections) const noexcept {
  return shape_of(kFirstLatencyNs, kFirstRate, false, connections);
}

std::uint32_t LinkModel::parts(std::uint64_t bytes, std::uint32_t connections) const noexcept {
  const std::uint64_t part = limits_.part_bytes.value_or(std::clamp(request_bytes(), kMinPart, kMaxPart));
  if (part == 0 || connections < 2) return 1;
  // With the option, no part is longer than it says. Otherwise a range of less than two parts is not worth splitting.
  const std::uint64_t count = limits_.part_bytes ? base::ceil_div(bytes, part) : bytes / part;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count, 1, connections));
}

}  // namespace headrace::http
