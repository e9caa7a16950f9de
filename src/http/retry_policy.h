// RetryPolicy: decides when to retry a failed request.
//
// Exponential backoff with full jitter, never sooner than the server asks for. A budget that successes refill keeps a
// store that fails every request from receiving many times the load of a working one.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace headrace::http {

struct RetryLimits {
  std::uint32_t attempts = 6;  // per request, including the first
  std::uint64_t base_ns = 50'000'000;
  std::uint64_t max_ns = 20'000'000'000;
  std::uint32_t budget = 500;  // a retry costs 5, a response gives back 1
};

class RetryPolicy {
 public:
  explicit RetryPolicy(const RetryLimits& limits) noexcept : limits_(limits), budget_(limits.budget) {}

  // How long to wait after `attempts` attempts; nothing: do not retry. `asked_ns`: the delay that the server asks for;
  // `left_ns`: time until the request's deadline; `random`: any number.
  std::optional<std::uint64_t> wait_ns(std::uint32_t attempts, std::uint64_t asked_ns, std::uint64_t left_ns,
                                       std::uint64_t random) noexcept {
    constexpr std::uint32_t kCost = 5;
    if (attempts >= limits_.attempts || budget_ < kCost) return std::nullopt;
    const std::uint64_t most = std::min(limits_.max_ns, limits_.base_ns << std::min(attempts, 20u));
    const std::uint64_t wait = std::max(asked_ns, random % (most + 1));
    if (wait >= left_ns) return std::nullopt;
    budget_ -= kCost;
    return wait;
  }
  void answered() noexcept { budget_ = std::min(budget_ + 1, limits_.budget); }

 private:
  const RetryLimits limits_;
  std::uint32_t budget_;
};

}  // namespace headrace::http
