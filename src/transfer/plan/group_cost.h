// GroupCost: what a group of one array's reads takes a worker. Decides for how many workers a wave is worth a wake-up:
// where the device reads the page cache and decodes, a group takes a worker microseconds, less than waking another.
//
// Threads: every call from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace headrace::transfer {

class GroupCost {
 public:
  // Waking a thread takes tens of microseconds, so one is woken for at least so much work.
  static constexpr std::uint64_t kWakeNs = 50'000;

  // `groups` > 0 took one thread `ns` in all.
  void note(std::uint64_t groups, std::uint64_t ns) noexcept {
    const std::uint64_t each = std::clamp<std::uint64_t>(ns / groups, 1, ~std::uint32_t{0});
    const std::uint64_t mean = ns_.load(std::memory_order_relaxed);
    // A mean that weighs the latest claims most. Of two threads that note at the same time, one may be lost.
    const std::uint64_t now = mean == 0 ? each : (mean * 7 + each) / 8;
    ns_.store(static_cast<std::uint32_t>(std::max<std::uint64_t>(now, 1)), std::memory_order_relaxed);
  }
  std::uint64_t mean_ns() const noexcept { return ns_.load(std::memory_order_relaxed); }  // 0: not known
  // How many threads are worth waking for `groups`; unless known otherwise, one for each.
  std::uint32_t helpers(std::uint32_t groups) const noexcept {
    const std::uint64_t mean = ns_.load(std::memory_order_relaxed);
    return mean == 0 ? groups : static_cast<std::uint32_t>(std::min<std::uint64_t>(groups, groups * mean / kWakeNs));
  }

 private:
  std::atomic<std::uint32_t> ns_{0};  // 0: not known
};

}  // namespace headrace::transfer
