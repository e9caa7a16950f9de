// How long the writer of a race takes for a file. Linux stamps a file when a call to write begins, so no reader sees
// the change that a writer makes who is held up within one (docs/reference/changing_stores.md).
//
// Threads: begin() and end() the writer's; now() and held_up_since() any number of readers'.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace headrace::support {

class WriterTimes {
 public:
  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  void begin() { began_ns_ = now(); }
  void end() {
    const std::int64_t ended = now(), began = began_ns_;
    // Before began_ns_ says that nothing is written, so that no reader finds neither.
    if (ended - began > kHeldUpNs) last_held_up_ns_ = ended;
    if (ended - began > kSettlingNs) last_unnoticed_ns_ = ended;
    began_ns_ = 0;
  }
  // Whether a file that was written at `since` or later has taken so long that the writer cannot have had a processor
  // all the time: what is read meanwhile may be mixed.
  bool held_up_since(std::int64_t since) const { return took_since(kHeldUpNs, last_held_up_ns_, since); }
  // Whether it has taken so long that its stamps had settled before its bytes: an array that was opened before that may
  // keep the old index.
  bool unnoticed_since(std::int64_t since) const { return took_since(kSettlingNs, last_unnoticed_ns_, since); }

 private:
  static constexpr std::int64_t kHeldUpNs = 1'000'000, kSettlingNs = 90'000'000;

  bool took_since(std::int64_t limit, const std::atomic<std::int64_t>& last, std::int64_t since) const {
    const std::int64_t began = began_ns_;
    return (began != 0 && now() - began > limit) || last >= since;
  }

  std::atomic<std::int64_t> began_ns_{0}, last_held_up_ns_{0}, last_unnoticed_ns_{0};
};

}  // namespace headrace::support
