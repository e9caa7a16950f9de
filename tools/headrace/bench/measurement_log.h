// MeasurementLog: a job's bandwidth, latency and IOPS over time, in the format of fio's logs.
//
// Each line has: milliseconds, value, direction (0 read, 1 write), bytes, the offset if requested, priority (0). Values
// are KiB/s, nanoseconds, and blocks: 1 per request, or blocks per second of a window.
//
// Threads: one at a time. Fails: lines beyond 2^24 are counted but not kept.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "job_options.h"

namespace headrace::bench {

struct MeasuredRequest {
  std::uint64_t ended = 0;                            // nanoseconds of now_ns()
  std::uint64_t submit = 0, complete = 0, total = 0;  // nanoseconds
  std::uint64_t bytes = 0, blocks = 0, offset = 0;
  bool write = false;
};

class MeasurementLog {
 public:
  explicit MeasurementLog(const LogOptions& options) : options_(options) {}

  // Marks the start of the job; `now` is from now_ns().
  void start(std::uint64_t now);
  // Allocates at most once per 2^15 lines.
  void add(const MeasuredRequest& request);
  // Marks the end of the job: converts the last windows to lines. A window shorter than half its length is merged into
  // the previous one, since a request that ends at its beginning would give an unrealistic rate.
  void finish(std::uint64_t now);
  std::uint64_t dropped() const noexcept { return dropped_; }

  // Writes the requested files, each atomically. `thread` numbers all threads of the run, from 1.
  Status write(const std::string& job_name, unsigned thread) const;

 private:
  struct Line {
    std::uint64_t time = 0, bandwidth = 0, iops = 0, submit = 0, complete = 0, total = 0, bytes = 0, offset = 0;
    bool write = false;
  };
  struct Window {
    std::uint64_t began = 0, requests = 0, blocks = 0, bytes = 0, submit = 0, complete = 0, total = 0;
    std::uint64_t max_submit = 0, max_complete = 0, max_total = 0;
    void add(const Window& other);
  };
  // The latest line of a direction, and the window it was made from.
  struct LastLine {
    Line* line = nullptr;
    Window window;
  };
  static constexpr std::size_t kChunk = std::size_t{1} << 15, kMaxChunks = 512;

  // Returns the stored line; nullptr if the log is full.
  Line* push(const Line& line);
  Line line_of(const Window& window, bool write, std::uint64_t now) const;
  void close_window(bool write, std::uint64_t now);
  Status write_one(const std::string& path, std::uint64_t Line::*value) const;

  LogOptions options_;
  std::uint64_t start_ = 0, epoch_ms_ = 0, dropped_ = 0;
  std::vector<std::unique_ptr<Line[]>> chunks_;
  std::size_t lines_ = 0;
  Window windows_[2];
  LastLine last_[2];
};

}  // namespace headrace::bench
