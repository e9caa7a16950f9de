// ConnectionLimit: how many connections to one server are used at a time, as the server shows.
//
// As long as requests wait for connections, more are tried, and kept where the rate grows with them. A server that has
// too much to do (429, 503, timeouts) gets half of them; from then on it is a few more at a time, until it says so
// again.
//
// Threads: one at a time, but for limit(): any.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace::http {

class ConnectionLimit {
 public:
  static constexpr std::uint32_t kFirst = 64;              // or `most`, where that is less
  static constexpr std::uint64_t kWindowNs = 100'000'000;  // what is compared, at least; or two answers' time
  static constexpr std::uint32_t kHeldWindows = 8;         // after more connections were of no use; doubles each time

  explicit ConnectionLimit(std::uint32_t most) noexcept
      : most_(most < 1 ? 1 : most), limit_(most_ < kFirst ? most_ : kFirst) {}

  // An answer came. `work`: bytes, and what its request costs in bytes; `waits`: others wait for a connection.
  void answered(std::uint64_t now_ns, std::uint64_t work, std::uint64_t latency_ns, bool waits) noexcept;
  // The server did not answer in time, or said that it has too much to do. One such answer among many changes nothing.
  void refused(std::uint64_t now_ns, std::uint64_t latency_ns) noexcept;

  std::uint32_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

 private:
  enum class State : std::uint8_t { kSteady, kSettling, kTrying };
  void end_window(double rate) noexcept;
  void set(std::uint32_t limit) noexcept { limit_.store(limit, std::memory_order_relaxed); }

  const std::uint32_t most_;
  std::atomic<std::uint32_t> limit_;
  // The window under way.
  std::uint64_t begun_ns_ = 0, work_ = 0;
  std::uint32_t answers_ = 0;
  bool all_wait_ = true;
  // What was found out.
  State state_ = State::kSteady;
  std::uint32_t before_ = 0;  // the limit before more were tried
  double rate_before_ = 0;
  std::uint32_t held_ = 0, next_held_ = kHeldWindows;  // windows until more are tried
  bool careful_ = false;                               // the server has refused
  std::uint32_t refusals_ = 0;                         // in 1/kUnit; answers make it less
  std::uint64_t deaf_until_ns_ = 0;                    // what was under way then is refused as well
};

}  // namespace headrace::http
