// HedgePolicy: decides when a response is late enough to send a second (hedged) request, and how often that is allowed.
//
// Times are taken relative to the expected time of a response of that length, so one distribution serves all lengths. A
// response is late beyond the 95th percentile, or beyond both the 90th percentile and twice the median, whichever is
// sooner. The second bound matters where about 5 % of the responses are slow: the 95th percentile may then itself be a
// slow one.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace headrace::http {

class HedgePolicy {
 public:
  static constexpr std::uint32_t kPerThousand = 50;         // hedged requests per 1000 responses
  static constexpr std::uint32_t kMaxSaved = 10;            // hedged requests that can be saved up
  static constexpr std::uint32_t kMinAnswers = 50;          // responses needed before anything counts as late
  static constexpr std::uint64_t kMinNs = 10'000'000;       // nothing is late before this
  static constexpr std::uint64_t kQuietNs = 1'000'000'000;  // pause after a server reported overload

  // A response took at least `took_ns` where `expected_ns` was expected.
  void answered(std::uint64_t took_ns, std::uint64_t expected_ns) noexcept;
  // How long after its start a request is late; nothing: too few responses so far.
  std::optional<std::uint64_t> late_after(std::uint64_t expected_ns) const noexcept;
  // The server reports overload.
  void throttled(std::uint64_t now_ns) noexcept { quiet_until_ns_ = now_ns + kQuietNs; }
  // Takes one request from the budget. False: the budget is empty, or hedging is paused.
  bool take(std::uint64_t now_ns) noexcept;

 private:
  // Histogram of took / expected: four buckets per doubling, starting at 1/16.
  static constexpr std::size_t kBuckets = 48;
  static constexpr std::uint32_t kMaxCounted = 1024;  // then all counts are halved, so that old responses fade
  std::uint64_t ratio_at(std::uint32_t per_thousand) const noexcept;

  std::array<std::uint32_t, kBuckets> counts_{};
  std::uint32_t counted_ = 0, seen_ = 0;
  std::uint32_t saved_ = 0;  // budget, in thousandths of a request
  std::uint64_t quiet_until_ns_ = 0;
};

}  // namespace headrace::http
