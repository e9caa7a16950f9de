// ProgressBar: one line on stderr, only on a terminal and only for work that takes longer than half a second.
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
  explicit ProgressBar(std::string label);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::uint64_t done, std::uint64_t total);
  // Wipes the line, so that what is printed next starts clean.
  void clear();

 private:
  std::mutex mutex_;
  std::string label_;
  bool terminal_;
  bool shown_ = false;                                  // guarded by mutex_
  std::chrono::steady_clock::time_point start_, last_;  // last_: guarded by mutex_
};

}  // namespace headrace::cli
