// ProgressBar: one line on stderr, shown only on a terminal and only for work that takes longer than half a second.
//
// Threads: update() from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace headrace::cli {

class ProgressBar {
 public:
  // `always`: show it even if stderr is no terminal.
  explicit ProgressBar(std::string label, bool always = false);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  bool shows() const noexcept { return shows_; }
  // `detail` follows the percentage if the line has room.
  void update(std::uint64_t done, std::uint64_t total, const std::string& detail = {});
  // Erases the line, so that later output starts on a clean line.
  void clear();

 private:
  std::mutex mutex_;
  std::string label_;
  bool shows_;
  bool shown_ = false;                                  // guarded by mutex_
  std::chrono::steady_clock::time_point start_, last_;  // last_: guarded by mutex_
};

}  // namespace headrace::cli
