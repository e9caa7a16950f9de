// How long the writer of a race takes for a file. Linux stamps a file when a call to write begins, so no reader sees
// the change that a writer makes who is held up within one (docs/reference/changing_stores.md).
//
// Threads: begin() and end() the writer's, the rest the reader's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace headrace::support {

class WriterTimes {
 public:
  void begin() { began_ns_ = now_ns(); }
  void end() {
    const std::int64_t took = now_ns() - began_ns_.exchange(0);
    if (took > longest_ns_) longest_ns_ = took;
  }
  void forget() { longest_ns_ = 0; }
  // Whether a file has taken so long since forget() that the writer cannot have had a processor all the time.
  bool held_up() const {
    const std::int64_t began = began_ns_;
    return longest_ns_ > kHeldUpNs || (began != 0 && now_ns() - began > kHeldUpNs);
  }

 private:
  static constexpr std::int64_t kHeldUpNs = 1'000'000;
  static std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  std::atomic<std::int64_t> began_ns_{0}, longest_ns_{0};
};

}  // namespace headrace::support
