// BenchJob: one thread's work in a measurement, on files, arrays, remote objects or a decoder.
//
// Threads: the main thread creates it and asks for its cache ranges; the job's own thread calls set_up(), then run().
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

// Lets other threads observe and stop a running job.
struct JobMonitor {
  std::atomic<std::uint64_t> bytes{0}, ios{0};  // so far, including ramp_time
  std::atomic<bool>* stop = nullptr;            // shared by all jobs of the stage
  bool stopped() const noexcept {
    return interrupted() != 0 || (stop != nullptr && stop->load(std::memory_order_relaxed));
  }
};

class BenchJob {
 public:
  virtual ~BenchJob() = default;
  // Allocates memory and queues; does not touch the data.
  virtual Status set_up() = 0;
  // Does the work. An error is stored in result.status and ends the counting.
  virtual void run(JobResult& result, JobMonitor& monitor) = 0;
  // The ranges that the job will access, for setting and sampling the page cache.
  virtual std::vector<CacheRange> cache_ranges() const = 0;
  // Bytes it will transfer unless a time limit ends it first; 0 if unknown.
  virtual std::uint64_t expected_bytes() const { return 0; }
  // Writes the requested logs after the run. `thread` numbers all threads of the run, from 1.
  virtual Status write_logs(unsigned /*thread*/) const { return {}; }
};

// `thread` numbers the clones of one job, from 0. Fails if the data does not permit the options; the Status names the
// file.
Result<std::unique_ptr<BenchJob>> make_file_job(const JobOptions& options, unsigned thread, const Context& context,
                                                const Device& device);
Result<std::unique_ptr<BenchJob>> make_zarr_job(const JobOptions& options, const Context& context,
                                                const Device& device);

Result<std::unique_ptr<BenchJob>> make_decode_job(const JobOptions& options, const Context& context,
                                                  const Device& device);

// For a job whose filename is a URL.
Result<std::unique_ptr<BenchJob>> make_remote_job(const JobOptions& options, unsigned thread, const Context& context);

// Checks that `count` buffers of `each_bytes` fit the memory of `device`, before they are allocated, and returns their
// total size; else kResourceExhausted. On the host an allocation would succeed and the process would be killed later.
Result<std::size_t> check_memory(const Device& device, std::uint64_t each_bytes, std::uint64_t count);

// Nanoseconds on a steady clock.
inline std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// Decides when a job's counting begins, and when the job stops.
class JobClock {
 public:
  explicit JobClock(const JobOptions& options);
  void start() noexcept;
  // True exactly once: when counting begins.
  bool counting_begins(std::uint64_t now) noexcept;
  bool counting() const noexcept { return counting_since_ != 0; }
  bool expired(std::uint64_t now) const noexcept { return now >= stop_; }
  std::uint64_t end() const noexcept { return stop_; }
  // Ends the counting now, and stores its seconds and CPU use.
  void finish(JobResult& result) noexcept;

 private:
  std::uint64_t ramp_ns_, runtime_ns_;
  std::uint64_t counting_from_ = 0, counting_since_ = 0, stop_ = UINT64_MAX;
  CpuUse cpu_;
};

}  // namespace headrace::bench
