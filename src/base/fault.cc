#include "base/fault.h"

#include <pthread.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace headrace::base {
namespace {

struct Counter {
  std::uint64_t hits = 0, fired = 0;
};

using Counts = std::map<std::string, Counter, std::less<>>;

std::mutex g_mutex;
std::atomic<bool> g_armed{false};
// Never destroyed, since threads keep running while the program exits.
FaultPlan& g_plan = *new FaultPlan;               // guarded by g_mutex
Counts& g_counts = *new Counts;                   // guarded by g_mutex
std::string& g_delayed_point = *new std::string;  // guarded by g_mutex
std::uint64_t g_star_hits = 0;
std::atomic<std::int64_t> g_delay_us{0};
std::atomic<std::uint64_t> g_delays_begun{0};

// Lets a forked child keep the armed plan: taking the lock at fork guarantees that no other thread is inside.
[[maybe_unused]] const int g_fork_handlers =
    pthread_atfork([] { g_mutex.lock(); }, [] { g_mutex.unlock(); }, [] { g_mutex.unlock(); });

}  // namespace

void arm_fault(const FaultPlan& plan) {
  std::lock_guard lock(g_mutex);
  g_plan = plan;
  g_star_hits = 0;
  for (auto& [name, counter] : g_counts) counter = {};
  g_armed = true;
}

void disarm_faults() {
  std::lock_guard lock(g_mutex);
  g_armed = false;
}

std::vector<FaultCount> fault_counts() {
  std::lock_guard lock(g_mutex);
  std::vector<FaultCount> out;
  for (const auto& [name, counter] : g_counts) out.push_back({name, counter.hits, counter.fired});
  return out;
}

std::int64_t fault_point(const char* name, std::int64_t result) noexcept {
  // Hits are counted even if nothing is armed, so that a first run can list every point of a scenario.
  try {
    std::lock_guard lock(g_mutex);
    auto found = g_counts.find(std::string_view(name));  // allocates only at the first hit
    if (found == g_counts.end()) found = g_counts.try_emplace(name).first;
    Counter& counter = found->second;
    const std::uint64_t hit = counter.hits++;
    if (!g_armed) return result;
    const bool any = g_plan.point == "*";
    if (!any && g_plan.point != name) return result;
    const std::uint64_t index = any ? g_star_hits++ : hit;
    if (index != g_plan.nth && !(g_plan.forever && index > g_plan.nth)) return result;
    ++counter.fired;
    switch (g_plan.kind) {
      case FaultKind::kErrno:
        return -static_cast<std::int64_t>(g_plan.error);
      case FaultKind::kShortByOne:
        return result > 0 ? result - 1 : result;
      case FaultKind::kHalf:
        return result > 0 ? result / 2 : result;
      case FaultKind::kZero:
        return result > 0 ? 0 : result;
    }
  } catch (...) {
  }
  return result;
}

void arm_delay(const std::string& point, std::chrono::microseconds delay) {
  std::lock_guard lock(g_mutex);
  g_delayed_point = point;
  g_delay_us = delay.count();
  g_delays_begun = 0;
}

std::uint64_t delays_begun() noexcept { return g_delays_begun; }

void delay_point(const char* name) noexcept {
  const std::int64_t delay_us = g_delay_us.load(std::memory_order_relaxed);
  if (delay_us == 0) return;
  {
    std::lock_guard lock(g_mutex);
    if (g_delayed_point != name) return;
    ++g_delays_begun;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
}

}  // namespace headrace::base
