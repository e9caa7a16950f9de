// WantedRuns: the runs of a decoded chunk that contain a task's boxes, such as a few frames of many, or crops at both
// ends.
//
// Threads: any, each with its own Worker. Nothing is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transfer/context/worker.h"
#include "transfer/read/placing.h"
#include "transfer/read/read_tasks.h"

namespace headrace::transfer {

// Sorted and disjoint. When there would be more than the limit, the two with the smallest gap are merged.
class WantedRuns {
 public:
  static constexpr std::size_t kMax = 8;

  // most: the limit, at least 1.
  explicit WantedRuns(std::size_t most = kMax) noexcept : max_(most) {}

  void add(const RawSpan& run) noexcept;
  // Adds the runs of a box that begins at the decoded byte `first`.
  void add(const device::Box& box, std::uint64_t first, std::uint32_t element_bytes) noexcept;

  std::span<const RawSpan> all() const noexcept { return {runs_.data(), count_}; }
  std::uint64_t bytes() const noexcept;

 private:
  void join_nearest() noexcept;

  std::size_t max_;
  std::size_t count_ = 0;
  std::array<RawSpan, kMax + 1> runs_{};
};

// The runs of the task that worker.detail describes, and still describes afterwards. A single run from the first byte
// to the last if `most` is 1, if the gaps are small, or if there are too many boxes to examine.
WantedRuns wanted_runs(const ReadTasks& tasks, const WaveTasks& wave, const TaskGroup& group, const Task& task,
                       std::size_t most, Worker& worker);

}  // namespace headrace::transfer
