// WantedRuns: the runs of a decoded chunk that a task's boxes lie in: a few frames of many, or crops at both ends.
//
// Threads: any, each with a Worker of its own. Nothing is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transfer/context/worker.h"
#include "transfer/read/placing.h"
#include "transfer/read/read_tasks.h"

namespace headrace::transfer {

// In order, apart from each other. Where there were more, those that lie nearest to each other are one.
class WantedRuns {
 public:
  static constexpr std::size_t kMost = 8;

  // most: at most so many, at least 1.
  explicit WantedRuns(std::size_t most = kMost) noexcept : most_(most) {}

  void add(const RawSpan& run) noexcept;
  // Those of a box that begins at the decoded byte `first`.
  void add(const device::Box& box, std::uint64_t first, std::uint32_t element_bytes) noexcept;

  std::span<const RawSpan> all() const noexcept { return {runs_.data(), count_}; }
  std::uint64_t bytes() const noexcept;

 private:
  void join_nearest() noexcept;

  std::size_t most_;
  std::size_t count_ = 0;
  std::array<RawSpan, kMost + 1> runs_{};
};

// Of the task that worker.detail describes, and goes on describing. One run from the first byte to the last where
// `most` is 1, where little lies between them, or where there are too many boxes to look at.
WantedRuns wanted_runs(const ReadTasks& tasks, const WaveTasks& wave, const TaskGroup& group, const Task& task,
                       std::size_t most, Worker& worker);

}  // namespace headrace::transfer
