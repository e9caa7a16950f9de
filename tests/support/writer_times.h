// How long the writer of a race takes for a file. Linux stamps a file when a write call begins, so a reader cannot
// detect the change of a writer that is suspended within the call (docs/reference/changing_stores.md).
//
// Threads: the writer calls begin() and end(); any number of readers call now(), held_up_since() and unnoticed_since().
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
    // Stored before began_ns_ is cleared, so that a reader always finds one of the two.
    if (ended - began > kHeldUpNs) last_held_up_ns_ = ended;
    if (ended - began > kSettlingNs) last_unnoticed_ns_ = ended;
    began_ns_ = 0;
  }
  // Whether a file written at `since` or later took so long that the writer was descheduled: concurrent reads may be
  // mixed.
  bool held_up_since(std::int64_t since) const { return took_since(kHeldUpNs, last_held_up_ns_, since); }
  // Whether the write took so long that the stamps had settled before the bytes: an array opened before that may keep
  // the old index.
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
