// LinkModel: learns from past responses what a server's responses cost: the latency to the first byte and the transfer
// rate of one connection. How to coalesce, group and split reads follows from the two.
//
// A request costs its connection the latency, and each byte costs 1 / rate. So reading through a gap between two wanted
// ranges is cheaper than a new request as long as the gap is smaller than latency x rate.
//
// Threads: note() by one at a time; the rest from any thread. Takes no lock, allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/read_shape.h"

namespace headrace::http {

// Limits set by options. Empty: use the learned values.
struct LinkLimits {
  std::optional<std::uint64_t> gap_bytes = std::nullopt;    // 0: gaps are never read
  std::optional<std::uint64_t> group_bytes = std::nullopt;  // maximum for one request that covers several ranges
  std::optional<std::uint64_t> part_bytes = std::nullopt;   // part size when a range is split; 0: never split
};

// A response that completed; times by base::now_ns().
struct LinkAnswer {
  std::uint64_t asked_ns = 0;  // the connection was up and the request was sent
  std::uint64_t first_ns = 0;  // the first byte of the response arrived
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t late_bytes = 0;  // of `bytes`, those that arrived at least kEarlyNs after first_ns
};

class LinkModel {
 public:
  // Assumed for an unknown server: an object store in the same region.
  static constexpr std::uint64_t kFirstLatencyNs = 20'000'000;
  static constexpr std::uint64_t kFirstRate = 50'000'000;
  // Bounds on all derived sizes, in bytes.
  static constexpr std::uint64_t kMinGap = 16 << 10, kMaxGap = 8 << 20;
  static constexpr std::uint64_t kMaxFirstGap = 1 << 20;  // while the rate is unknown
  static constexpr std::uint64_t kMinGroup = 1 << 20, kMaxGroup = 8 << 20;
  static constexpr std::uint64_t kMinPart = 1 << 20, kMaxPart = 16 << 20;
  static constexpr std::uint64_t kMinSample = 128 << 10;  // smaller responses say nothing about the rate
  static constexpr std::uint64_t kEarlyNs = 1'000'000;    // earlier bytes were already buffered when reading began

  explicit LinkModel(const LinkLimits& limits) noexcept : limits_(limits) {}

  // Ignores responses whose times run backwards; those of fewer than kMinSample bytes count for the latency only.
  void note(const LinkAnswer& answer) noexcept;

  std::uint64_t latency_ns() const noexcept { return latency_ns_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_per_second() const noexcept;  // of one connection, while others share the link and the server
  // The bytes that a connection transfers in the time that a request costs.
  std::uint64_t request_bytes() const noexcept;
  // Expected time of a response of `bytes` bytes.
  std::uint64_t expected_ns(std::uint64_t bytes) const noexcept;

  // For `connections` connections.
  base::ReadShape shape(std::uint32_t connections) const noexcept;
  // The same from options alone, as for an unknown server.
  base::ReadShape first_shape(std::uint32_t connections) const noexcept;
  // How many requests should share a range of `bytes` bytes when `connections` connections are otherwise idle. At least
  // 1.
  std::uint32_t parts(std::uint64_t bytes, std::uint32_t connections) const noexcept;

 private:
  base::ReadShape shape_of(std::uint64_t latency_ns, std::uint64_t rate, bool rate_known,
                           std::uint32_t connections) const noexcept;

  const LinkLimits limits_;
  // Means of the latency and of the time per MiB. (A mean of rates would be dominated by the fast responses.)
  std::atomic<std::uint64_t> latency_ns_{kFirstLatencyNs}, pace_{(std::uint64_t{1} << 20) * 1'000'000'000 / kFirstRate};
  std::atomic<bool> latency_known_{false}, rate_known_{false};
};

}  // namespace headrace::http
