// ConnectionLimit: adapts the number of concurrent connections to one server to what the server sustains.
//
// While requests wait for connections, the limit is raised, and stays raised if throughput grows. When the server is
// overloaded (429, 503, timeouts), the limit is halved; from then on it grows in small steps until the server refuses
// again.
//
// Threads: one at a time; limit() from any.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace::http {

class ConnectionLimit {
 public:
  static constexpr std::uint32_t kFirst = 64;              // or `most`, where that is smaller
  static constexpr std::uint64_t kWindowNs = 100'000'000;  // minimum length of a window; or two responses' time
  static constexpr std::uint32_t kHeldWindows = 8;         // windows to wait after a useless raise; doubles each time

  explicit ConnectionLimit(std::uint32_t most) noexcept
      : max_(most < 1 ? 1 : most), limit_(max_ < kFirst ? max_ : kFirst) {}

  // A response arrived. `work`: its bytes plus the cost of its request in bytes; `waits`: other requests wait for a
  // connection.
  void answered(std::uint64_t now_ns, std::uint64_t work, std::uint64_t latency_ns, bool waits) noexcept;
  // The server timed out or reported overload. A single refusal among many responses changes nothing.
  void refused(std::uint64_t now_ns, std::uint64_t latency_ns) noexcept;

  std::uint32_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

 private:
  enum class State : std::uint8_t { kSteady, kSettling, kTrying };
  void end_window(double rate) noexcept;
  void set(std::uint32_t limit) noexcept { limit_.store(limit, std::memory_order_relaxed); }

  const std::uint32_t max_;
  std::atomic<std::uint32_t> limit_;
  // The current window.
  std::uint64_t begun_ns_ = 0, work_ = 0;
  std::uint32_t answers_ = 0;
  bool all_wait_ = true;
  // State of the search.
  State state_ = State::kSteady;
  std::uint32_t before_ = 0;  // the limit before the raise
  double rate_before_ = 0;
  std::uint32_t held_ = 0, next_held_ = kHeldWindows;  // windows until the next raise
  bool small_steps_ = false;                           // the server has refused: grow in small steps
  std::uint32_t refusals_ = 0;                         // in 1/kUnit; responses decrease it
  std::uint64_t ignore_refusals_until_ns_ = 0;         // ignore refusals until then: they are for requests in flight
};

}  // namespace headrace::http
