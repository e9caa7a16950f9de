// ServerModel: what past responses of one server have taught: their cost, how many connections are useful, when a
// response is late, and whether to retry failed requests.
//
// Threads: every call from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "http/connection_limit.h"
#include "http/hedge_policy.h"
#include "http/link_model.h"
#include "http/retry_policy.h"

namespace headrace::http {

class ServerModel {
 public:
  // `random`: any number.
  ServerModel(const LinkLimits& link, const RetryLimits& retry, std::uint32_t max_connections,
              std::uint64_t random) noexcept
      : link_(link), policy_(retry), random_(random | 1), connections_(max_connections) {}

  // Cost and connection limit; these take no lock.
  const LinkModel& link() const noexcept { return link_; }
  std::uint32_t connections() const noexcept { return connections_.limit(); }

  // A range arrived; `waits`: other requests wait for a connection.
  void answered(const LinkAnswer& answer, bool waits) noexcept {
    std::lock_guard lock(mutex_);
    policy_.answered();
    link_.note(answer);
    connections_.answered(answer.end_ns, answer.bytes + link_.request_bytes(), link_.latency_ns(), waits);
  }
  // Another response arrived: it refills the retry budget but teaches nothing about cost.
  void answered() noexcept {
    std::lock_guard lock(mutex_);
    policy_.answered();
  }
  // The server timed out; or, with `throttles`, reported overload.
  void refused(std::uint64_t now_ns, bool throttles) noexcept {
    std::lock_guard lock(mutex_);
    if (throttles) hedging_.throttled(now_ns);
    connections_.refused(now_ns, link_.latency_ns());
  }
  // As in RetryPolicy and HedgePolicy.
  std::optional<std::uint64_t> wait_ns(std::uint32_t attempts, std::uint64_t asked_ns, std::uint64_t left_ns) noexcept {
    std::lock_guard lock(mutex_);
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return policy_.wait_ns(attempts, asked_ns, left_ns, random_);
  }
  void took(std::uint64_t took_ns, std::uint64_t expected_ns) noexcept {
    std::lock_guard lock(mutex_);
    hedging_.answered(took_ns, expected_ns);
  }
  std::optional<std::uint64_t> late_after(std::uint64_t expected_ns) const noexcept {
    std::lock_guard lock(mutex_);
    return hedging_.late_after(expected_ns);
  }
  bool take_hedge(std::uint64_t now_ns) noexcept {
    std::lock_guard lock(mutex_);
    return hedging_.take(now_ns);
  }

 private:
  mutable std::mutex mutex_;
  LinkModel link_;               // updated under mutex_
  RetryPolicy policy_;           // guarded by mutex_
  std::uint64_t random_;         // guarded by mutex_
  HedgePolicy hedging_;          // guarded by mutex_
  ConnectionLimit connections_;  // updated under mutex_
};

}  // namespace headrace::http
