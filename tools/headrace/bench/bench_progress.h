// BenchProgress: a terminal line with the progress and speed of the running jobs.
//
// Threads: owns one thread from construction to destruction; it reads the jobs' counters.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "progress_bar.h"

namespace headrace::bench {

struct ProgressNow {
  std::uint64_t bytes = 0, ios = 0;  // so far
  double share = 0;                  // of the total, 0 to 1
};

class BenchProgress {
 public:
  // The progress thread calls `look` until destruction. Does nothing unless stderr is a terminal or `always` is set.
  BenchProgress(std::string label, std::function<ProgressNow()> look, bool always);
  ~BenchProgress();
  BenchProgress(const BenchProgress&) = delete;
  BenchProgress& operator=(const BenchProgress&) = delete;

 private:
  void run();

  cli::ProgressBar bar_;
  std::function<ProgressNow()> look_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace headrace::bench
