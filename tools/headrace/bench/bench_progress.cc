#include "bench_progress.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "cli_common.h"

namespace headrace::bench {

BenchProgress::BenchProgress(std::string label, std::function<ProgressNow()> look, bool always)
    : bar_(std::move(label), always), look_(std::move(look)) {
  if (!bar_.shows()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // The bench runs without a progress line.
  }
}

BenchProgress::~BenchProgress() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void BenchProgress::run() {
  using Clock = std::chrono::steady_clock;
  ProgressNow before = look_();
  auto then = Clock::now();
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stop_; })) {
    const ProgressNow now = look_();
    const auto at = Clock::now();
    const double seconds = std::chrono::duration<double>(at - then).count();
    const auto ios = static_cast<std::uint64_t>(static_cast<double>(now.ios - before.ios) / seconds);
    const std::string rate =
        cli::human_rate(now.bytes - before.bytes, seconds) + ", " + cli::human_count(ios) + " IOPS";
    bar_.update(static_cast<std::uint64_t>(std::clamp(now.share, 0.0, 1.0) * 1e6), 1'000'000, rate);
    before = now;
    then = at;
  }
}

}  // namespace headrace::bench
