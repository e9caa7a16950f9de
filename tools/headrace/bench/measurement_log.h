// MeasurementLog: bandwidth, latency and IOPS of a job over time, in the form of fio's logs.
//
// Each line: milliseconds, value, direction (0 read, 1 write), bytes, the offset if asked for, priority (0). Values are
// KiB/s, nanoseconds, and blocks: 1 for each request, or blocks a second of a window.
//
// Threads: one at a time. Fails: lines beyond 2^24 are counted, not kept.
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

  // The job begins; `now` of now_ns().
  void start(std::uint64_t now);
  // Allocates once in 2^15 lines at most.
  void add(const MeasuredRequest& request);
  // The job has ended: what the last windows hold becomes lines. A window of less than half the time is added to the
  // one before it: a request that ends as the window begins would have a rate that nothing had.
  void finish(std::uint64_t now);
  std::uint64_t dropped() const noexcept { return dropped_; }

  // Writes the files that were asked for, each whole or not at all; `thread` counts all threads of the run from 1.
  Status write(const std::string& job_name, unsigned thread) const;

 private:
  struct Line {
    std::uint64_t time = 0, bandwidth = 0, iops = 0, submit = 0, complete = 0, total = 0, bytes = 0, offset = 0;
    bool write = false;
  };
  struct Window {
    std::uint64_t began = 0, requests = 0, blocks = 0, bytes = 0, submit = 0, complete = 0, total = 0;
    std::uint64_t most_submit = 0, most_complete = 0, most_total = 0;
    void add(const Window& other);
  };
  // The latest line of a direction, and what it was made of.
  struct LastLine {
    Line* line = nullptr;
    Window window;
  };
  static constexpr std::size_t kChunk = std::size_t{1} << 15, kMostChunks = 512;

  // Where the line is kept; null where there is no more room.
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
