// HedgePolicy: when an answer is so late that it is worth asking a second time, and how often that may be.
//
// Times are compared with what answers of that length are expected to take, so that one distribution serves all
// lengths: late is what takes longer than 95 of 100 answers do; or sooner, than 90 of them and twice as long as half of
// them, which holds where just those 5 of 100 are the slow ones.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace headrace::http {

class HedgePolicy {
 public:
  static constexpr std::uint32_t kPerThousand = 50;         // requests more, of those that are answered
  static constexpr std::uint32_t kMostSaved = 10;           // requests that answers of before allow at once
  static constexpr std::uint32_t kLeastAnswers = 50;        // before anything is late
  static constexpr std::uint64_t kLeastNs = 10'000'000;     // nothing is late sooner
  static constexpr std::uint64_t kQuietNs = 1'000'000'000;  // after a server asked for patience

  // An answer took `took_ns`, or longer, where `expected_ns` was expected.
  void answered(std::uint64_t took_ns, std::uint64_t expected_ns) noexcept;
  // How long after its beginning a request is late; nothing: that is not known yet.
  std::optional<std::uint64_t> late_after(std::uint64_t expected_ns) const noexcept;
  // The server has too much to do.
  void throttled(std::uint64_t now_ns) noexcept { quiet_until_ns_ = now_ns + kQuietNs; }
  // Takes one request of the budget. False: there is none, or the server has too much to do.
  bool take(std::uint64_t now_ns) noexcept;

 private:
  // Of took / expected, four buckets for each doubling, from 1/16 on.
  static constexpr std::size_t kBuckets = 48;
  static constexpr std::uint32_t kMostCounted = 1024;  // then all counts are halved, so that what is long ago fades
  std::uint64_t ratio_at(std::uint32_t per_thousand) const noexcept;

  std::array<std::uint32_t, kBuckets> counts_{};
  std::uint32_t counted_ = 0, seen_ = 0;
  std::uint32_t saved_ = 0;  // thousandths of a request
  std::uint64_t quiet_until_ns_ = 0;
};

}  // namespace headrace::http
