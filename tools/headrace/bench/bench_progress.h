// BenchProgress: the line on a terminal that says how far the running jobs are and how fast they go.
//
// Threads: one of its own between construction and destruction; it reads what the jobs count.
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
  double share = 0;                  // of the whole, 0 to 1
};

class BenchProgress {
 public:
  // `look` is called from the progress thread until destruction. Does nothing where stderr is no terminal, unless
  // `always`.
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
