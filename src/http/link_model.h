// LinkModel: what answers of a server cost, learned from those that came: how long until the first byte, and how fast
// one connection goes on from there. What is worth reading over, grouping and splitting follows from the two.
//
// A request costs its connection the latency, and each byte 1 / rate. So a gap between two wanted ranges is cheaper
// read than asked for anew as long as it has fewer bytes than the connection carries meanwhile: latency x rate.
//
// Threads: note() by one at a time; the rest from any thread. Takes no lock, allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/read_shape.h"

namespace headrace::http {

// What options say. Nothing: as it is learned.
struct LinkLimits {
  std::optional<std::uint64_t> gap_bytes = std::nullopt;    // 0: none is read over
  std::optional<std::uint64_t> group_bytes = std::nullopt;  // most that one request takes of several ranges
  std::optional<std::uint64_t> part_bytes = std::nullopt;   // of a range that several requests take; 0: none is split
};

// An answer that came to its good end, by base::now_ns().
struct LinkAnswer {
  std::uint64_t asked_ns = 0;  // the connection stood, and the request went out
  std::uint64_t first_ns = 0;  // the answer began
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t late_bytes = 0;  // of these, what came kEarlyNs after it began, and later
};

class LinkModel {
 public:
  // Of a server that nothing is known of: object stores of the region one is in.
  static constexpr std::uint64_t kFirstLatencyNs = 20'000'000;
  static constexpr std::uint64_t kFirstRate = 50'000'000;
  // Whatever is learned, bytes.
  static constexpr std::uint64_t kLeastGap = 16 << 10, kMostGap = 8 << 20;
  static constexpr std::uint64_t kMostFirstGap = 1 << 20;  // as long as no rate is known
  static constexpr std::uint64_t kLeastGroup = 1 << 20, kMostGroup = 8 << 20;
  static constexpr std::uint64_t kLeastPart = 1 << 20, kMostPart = 16 << 20;
  static constexpr std::uint64_t kLeastSample = 128 << 10;  // of fewer bytes nothing is learned of the rate
  static constexpr std::uint64_t kEarlyNs = 1'000'000;      // what comes sooner had been waiting to be read

  explicit LinkModel(const LinkLimits& limits) noexcept : limits_(limits) {}

  // Clocks that run backwards and answers without bytes are passed over.
  void note(const LinkAnswer& answer) noexcept;

  std::uint64_t latency_ns() const noexcept { return latency_ns_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_per_second() const noexcept;  // of a connection, as others use the link and the server as well
  // What a connection carries in the time that a request costs.
  std::uint64_t request_bytes() const noexcept;
  // How long an answer of so many bytes takes.
  std::uint64_t expected_ns(std::uint64_t bytes) const noexcept;

  // With so many connections.
  base::ReadShape shape(std::uint32_t connections) const noexcept;
  // The same, of what options say and a server that nothing is known of.
  base::ReadShape first_shape(std::uint32_t connections) const noexcept;
  // How many requests take a range of so many bytes together, where `connections` have nothing else to do. At least 1.
  std::uint32_t parts(std::uint64_t bytes, std::uint32_t connections) const noexcept;

 private:
  base::ReadShape shape_of(std::uint64_t latency_ns, std::uint64_t rate, bool rate_known,
                           std::uint32_t connections) const noexcept;

  const LinkLimits limits_;
  // Means: of a latency, and of the time that a MiB takes. (A mean of rates would be that of the fast answers.)
  std::atomic<std::uint64_t> latency_ns_{kFirstLatencyNs}, pace_{(std::uint64_t{1} << 20) * 1'000'000'000 / kFirstRate};
  std::atomic<bool> latency_known_{false}, rate_known_{false};
};

}  // namespace headrace::http
