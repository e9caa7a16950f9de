#include "http/connection_limit.h"

#include <algorithm>

namespace headrace::http {
namespace {

constexpr std::uint32_t kUnit = 32;        // responses that offset one refusal
constexpr std::uint32_t kMaxRefusals = 2;  // this many refusals close together halve the limit
constexpr double kWorth = 1.05;            // a raise must increase the rate by this factor to be kept
constexpr std::uint32_t kMaxHeld = 256;
constexpr std::uint64_t kDeafNs = 10'000'000;

// Time of two responses.
std::uint64_t window_of(std::uint64_t latency_ns, std::uint64_t min_ns) noexcept {
  constexpr std::uint64_t kMax = 10'000'000'000;
  return std::max(min_ns, 2 * std::min(latency_ns, kMax));
}

}  // namespace

void ConnectionLimit::answered(std::uint64_t now_ns, std::uint64_t work, std::uint64_t latency_ns,
                               bool waits) noexcept {
  if (refusals_ > 0) --refusals_;
  if (answers_ == 0 || now_ns < begun_ns_) {
    begun_ns_ = now_ns;
    work_ = 0;
    all_wait_ = true;
    answers_ = 0;
  }
  work_ += std::min(work, std::uint64_t{1} << 40);
  all_wait_ = all_wait_ && waits;
  ++answers_;
  // Wait until every connection could deliver a response.
  if (now_ns - begun_ns_ < window_of(latency_ns, kWindowNs) || answers_ <= limit()) return;
  const double rate = static_cast<double>(work_) / static_cast<double>(now_ns - begun_ns_);
  const bool busy = all_wait_;
  answers_ = 0;
  if (busy) {
    end_window(rate);
  } else if (state_ != State::kSteady) {
    state_ = State::kSteady;  // inconclusive: not all connections were in demand
  }
}

void ConnectionLimit::end_window(double rate) noexcept {
  const std::uint32_t now = limit();
  switch (state_) {
    case State::kSettling:  // connections were being established in this window: do not compare it
      state_ = State::kTrying;
      return;
    case State::kTrying:
      state_ = State::kSteady;
      if (rate >= rate_before_ * kWorth) {
        next_held_ = kHeldWindows;
        break;
      }
      set(std::min(before_, now));
      held_ = next_held_;
      next_held_ = std::min(next_held_ * 2, kMaxHeld);
      return;
    case State::kSteady:
      break;
  }
  if (held_ > 0) {
    --held_;
    return;
  }
  if (now >= max_) return;
  if (small_steps_) {  // the server will refuse when the limit is too high
    set(std::min(max_, now + std::max(now / 16, 1u)));
    return;
  }
  before_ = now;
  rate_before_ = rate;
  set(std::min(max_, now + std::max(now / 4, 1u)));
  state_ = State::kSettling;
}

void ConnectionLimit::refused(std::uint64_t now_ns, std::uint64_t latency_ns) noexcept {
  if (now_ns < ignore_refusals_until_ns_) return;
  refusals_ += kUnit;
  if (refusals_ <= (kMaxRefusals - 1) * kUnit) return;
  refusals_ = 0;
  set(std::max(limit() / 2, 1u));
  small_steps_ = true;
  state_ = State::kSteady;
  held_ = 1;
  answers_ = 0;
  ignore_refusals_until_ns_ = now_ns + window_of(latency_ns, kDeafNs);
}

}  // namespace headrace::http
