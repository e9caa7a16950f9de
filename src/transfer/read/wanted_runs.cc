#include "transfer/read/wanted_runs.h"

#include <algorithm>

namespace headrace::transfer {
namespace {

// Codecs decode by blocks, which are larger than a smaller gap.
constexpr std::uint64_t kMinGapBytes = std::uint64_t{16} << 10;
constexpr std::uint64_t kMaxRunsPerBox = 64;  // that are examined
constexpr int kMaxBoxes = 64;                 // per chunk

std::uint64_t end_of(const RawSpan& run) noexcept { return run.first + run.bytes; }

}  // namespace

void WantedRuns::add(const RawSpan& run) noexcept {
  if (run.bytes == 0) return;
  RawSpan* const end = runs_.data() + count_;
  // Merge the run with those that it touches.
  RawSpan* const from =
      std::find_if(runs_.data(), end, [&](const RawSpan& other) { return end_of(other) >= run.first; });
  RawSpan* const to = std::find_if(from, end, [&](const RawSpan& other) { return other.first > end_of(run); });
  if (from != to) {
    const std::uint64_t first = std::min(from->first, run.first), last = std::max(end_of(*(to - 1)), end_of(run));
    *from = {first, last - first};
    std::move(to, end, from + 1);
    count_ -= static_cast<std::size_t>(to - from - 1);
    return;
  }
  std::move_backward(from, end, end + 1);
  *from = run;
  if (++count_ > max_) join_nearest();
}

void WantedRuns::join_nearest() noexcept {
  std::size_t nearest = 1;
  const auto gap = [&](std::size_t i) { return runs_[i].first - end_of(runs_[i - 1]); };
  for (std::size_t i = 2; i < count_; ++i) {
    if (gap(i) < gap(nearest)) nearest = i;
  }
  RawSpan& before = runs_[nearest - 1];
  before.bytes = end_of(runs_[nearest]) - before.first;
  std::move(runs_.begin() + static_cast<std::ptrdiff_t>(nearest) + 1,
            runs_.begin() + static_cast<std::ptrdiff_t>(count_), runs_.begin() + static_cast<std::ptrdiff_t>(nearest));
  --count_;
}

std::uint64_t WantedRuns::bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const RawSpan& run : all()) bytes += run.bytes;
  return bytes;
}

void WantedRuns::add(const device::Box& box, std::uint64_t first, std::uint32_t element_bytes) noexcept {
  std::array<device::BoxDim, device::kMaxRank> dims;
  std::size_t rank = 0;
  std::uint64_t bytes = element_bytes;  // from the first to past the last
  for (int i = 0; i < box.rank; ++i) {
    const device::BoxDim& dim = box.dim[static_cast<std::size_t>(i)];
    if (dim.extent == 0) return;
    if (dim.extent == 1) continue;
    dims[rank++] = dim;
    bytes += (dim.extent - 1) * static_cast<std::uint64_t>(dim.src_stride_bytes);
  }
  std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(rank),
            [](const auto& a, const auto& b) { return a.src_stride_bytes > b.src_stride_bytes; });
  // Split along the slowest dimensions, as long as the gap between their steps is large.
  std::size_t apart = 0;
  std::uint64_t runs = 1;
  for (; apart < rank; ++apart) {
    const device::BoxDim& dim = dims[apart];
    const auto stride = static_cast<std::uint64_t>(dim.src_stride_bytes);
    const std::uint64_t within = bytes - (dim.extent - 1) * stride;
    if (stride < within + kMinGapBytes || dim.extent > kMaxRunsPerBox / runs) break;
    runs *= dim.extent;
    bytes = within;
  }
  for (std::uint64_t run = 0; run < runs; ++run) {
    std::uint64_t at = first, rest = run;
    for (std::size_t i = apart; i-- > 0; rest /= dims[i].extent) {
      at += rest % dims[i].extent * static_cast<std::uint64_t>(dims[i].src_stride_bytes);
    }
    add({at, bytes});
  }
}

WantedRuns wanted_runs(const ReadTasks& tasks, const WaveTasks& wave, const TaskGroup& group, const Task& task,
                       std::size_t most, Worker& worker) {
  TaskDetail& detail = worker.detail;
  const std::uint32_t element_bytes = wave.op().element_bytes;
  const RawSpan span = raw_span(detail, element_bytes);
  WantedRuns one(1);
  one.add(span);
  const std::uint64_t between = span.bytes - std::min(span.bytes, ReadTasks::element_bytes(wave, detail));
  if (most < 2 || between < kMinGapBytes) return one;
  WantedRuns runs(most);
  if (!detail.several) {
    runs.add(detail.box, static_cast<std::uint64_t>(detail.source_offset), element_bytes);
    return runs;
  }
  int boxes = 0;
  bool another = true;
  for (; another && boxes < kMaxBoxes; ++boxes) {
    runs.add(detail.box, static_cast<std::uint64_t>(detail.source_offset), element_bytes);
    another = tasks.plan().next_box(detail);
  }
  worker.described = nullptr;
  tasks.describe(group, task, worker);
  return another ? one : runs;
}

}  // namespace headrace::transfer
