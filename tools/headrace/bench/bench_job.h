// BenchJob: one thread's work in a measurement; files and arrays are two kinds of it.
//
// Threads: made and asked for its cache ranges by the main thread; set_up() and run() are called in the job's own, one
//          after the other.
#pragma once

#include <headrace/context.h>
#include <headrace/device.h>
#include <headrace/status.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench_interrupt.h"
#include "job_options.h"
#include "job_result.h"

namespace headrace::bench {

// What a running job is seen by, and stopped by, from other threads.
struct JobMonitor {
  std::atomic<std::uint64_t> bytes{0}, ios{0};  // so far, ramp_time included
  std::atomic<bool>* stop = nullptr;            // of all jobs of the stage
  bool stopped() const noexcept {
    return interrupted() != 0 || (stop != nullptr && stop->load(std::memory_order_relaxed));
  }
};

class BenchJob {
 public:
  virtual ~BenchJob() = default;
  // Memory and queues: nothing that touches the data.
  virtual Status set_up() = 0;
  // Does the work; what went wrong is in result.status, and nothing after it is counted.
  virtual void run(JobResult& result, JobMonitor& monitor) = 0;
  // What the job will touch, for setting and sampling the page cache.
  virtual std::vector<CacheRange> cache_ranges() const = 0;
  // Bytes it will read or write unless time ends it; 0: not known.
  virtual std::uint64_t expected_bytes() const { return 0; }
  // After the run: logs that were asked for. `thread` counts all threads of the run from 1.
  virtual Status write_logs(unsigned /*thread*/) const { return {}; }
};

// `thread` counts the clones of one job from 0. Fails where the data does not allow what the options ask for; the
// Status then names the file.
Result<std::unique_ptr<BenchJob>> make_file_job(const JobOptions& options, unsigned thread, const Context& context,
                                                const Device& device);
Result<std::unique_ptr<BenchJob>> make_zarr_job(const JobOptions& options, const Context& context,
                                                const Device& device);

Result<std::unique_ptr<BenchJob>> make_decode_job(const JobOptions& options, const Context& context,
                                                  const Device& device);

// Of a job whose filename is a URL.
Result<std::unique_ptr<BenchJob>> make_remote_job(const JobOptions& options, unsigned thread, const Context& context);

// The memory of `count` buffers of `each_bytes` on `device`, before it is asked for: kResourceExhausted where it cannot
// be there. The host's own allocation would succeed and the process be killed later. Gives the sum.
Result<std::size_t> check_memory(const Device& device, std::uint64_t each_bytes, std::uint64_t count);

// Nanoseconds on a steady clock.
inline std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// When a job counts and when it stops.
class JobClock {
 public:
  explicit JobClock(const JobOptions& options);
  void start() noexcept;
  // True once: counting begins now.
  bool counting_begins(std::uint64_t now) noexcept;
  bool counting() const noexcept { return counting_since_ != 0; }
  bool expired(std::uint64_t now) const noexcept { return now >= stop_; }
  std::uint64_t end() const noexcept { return stop_; }
  // Fills in seconds and CPU use of the counted time, which ends now.
  void finish(JobResult& result) noexcept;

 private:
  std::uint64_t ramp_ns_, runtime_ns_;
  std::uint64_t counting_from_ = 0, counting_since_ = 0, stop_ = UINT64_MAX;
  CpuUse cpu_;
};

}  // namespace headrace::bench
