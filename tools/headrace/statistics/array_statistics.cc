#include "statistics/array_statistics.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cli_common.h"
#include "gen/parallel.h"
#include "read_slabs.h"

namespace headrace::cli {
namespace {

// Contiguous elements of a slab that belong to the same statistic.
class Runs {
 public:
  Runs(const std::vector<std::uint64_t>& array_shape, const std::vector<std::size_t>& by, const ReadSlab& slab)
      : slab_(slab) {
    const std::size_t outer = by.empty() ? 0 : by.back() + 1;
    for (std::size_t d = outer; d < slab.shape.size(); ++d) length_ *= slab.shape[d];
    for (std::size_t d = 0; d < outer; ++d) count_ *= slab.shape[d];
    weights_.resize(outer);
    std::uint64_t weight = 1;
    for (std::size_t i = by.size(); i-- > 0;) {
      weights_[by[i]] = weight;
      weight *= array_shape[by[i]];
    }
  }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t statistic_of(std::uint64_t run) const noexcept {
    std::uint64_t number = 0;
    for (std::size_t d = weights_.size(); d-- > 0;) {
      number += (slab_.start[d] + run % slab_.shape[d]) * weights_[d];
      run /= slab_.shape[d];
    }
    return number;
  }

 private:
  const ReadSlab& slab_;
  std::vector<std::uint64_t> weights_;  // of the dimensions before the runs; 0: irrelevant
  std::uint64_t count_ = 1, length_ = 1;
};

}  // namespace

Result<std::vector<RunningStatistics>> array_statistics(const Array& array, const ArrayStatisticsOptions& options) {
  const ArrayInfo& info = array.info();
  std::uint64_t count = 1, elements = 1;
  for (const std::size_t d : options.by) count = std::min(count, std::uint64_t{1} << 40) * info.shape[d];
  for (const std::uint64_t extent : info.shape) elements *= extent;
  const unsigned threads = options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  // Accounts for the levels that a sketch allocates.
  const std::uint64_t each = sizeof(RunningStatistics) + (options.quantiles ? QuantileSketch::kLevel * 8 * 12 : 0);
  if (count > kMaxStatisticsBytes / each / threads) {
    return Status(Code::kResourceExhausted, Layer::kApi,
                  std::to_string(count) + " statistics take more than " + human_bytes(kMaxStatisticsBytes) +
                      " of memory: choose other dimensions");
  }
  ReadOptions read;
  read.dtype = "float64";
  read.scale = options.scale;
  read.offset = options.offset;
  read.fill_as_nan = options.fill_as_nan;
  HEADRACE_TRY_ASSIGN(const DataType dtype, result_dtype(info.dtype, read));
  HEADRACE_TRY_ASSIGN(const Device device, Device::open("host"));
  HEADRACE_TRY_ASSIGN(const ResolvedSelection resolved, array.resolve({}));

  std::vector<std::vector<RunningStatistics>> parts(
      threads, std::vector<RunningStatistics>(count, RunningStatistics(options.quantiles)));
  if (elements > 0) {
    ReadSlabs slabs(info, {}, resolved, dtype.item_bytes, options.slab_bytes, false);
    Buffer buffers[2];
    ReadSlab slab[2];
    std::optional<Completion> reading;
    const auto begin = [&](std::size_t i) -> Status {
      if (buffers[i].size_bytes() < slab[i].bytes) {
        HEADRACE_TRY_ASSIGN(buffers[i], Buffer::allocate(device, slab[i].bytes));
      }
      HEADRACE_TRY_ASSIGN(reading,
                          array.read_async(slab[i].selection, {buffers[i], dtype, slab[i].shape}, device, read));
      return {};
    };
    std::uint64_t done = 0;
    std::size_t current = 0;
    bool more = slabs.next(slab[0]);
    if (more) HEADRACE_TRY(begin(0));
    while (more) {
      HEADRACE_TRY(reading->wait());
      more = slabs.next(slab[1 - current]);
      if (more) HEADRACE_TRY(begin(1 - current));
      const Runs runs(info.shape, options.by, slab[current]);
      const auto* const numbers = reinterpret_cast<const double*>(buffers[current].data());
      const auto work = [&](std::uint64_t part) -> Status {
        // A single run is split too: without `by` there is only one.
        const std::uint64_t all = runs.count() * runs.length();
        const std::uint64_t end = all * (part + 1) / threads;
        for (std::uint64_t at = all * part / threads; at < end;) {
          const std::uint64_t run = at / runs.length(), to = std::min(end, (run + 1) * runs.length());
          parts[part][runs.statistic_of(run)].add({numbers + at, to - at});
          at = to;
        }
        return {};
      };
      const Status computed = run_parallel(threads, threads, [&]() -> Result<Work> { return Work(work); });
      if (!computed.ok()) {
        if (more) static_cast<void>(reading->wait());
        return computed;
      }
      done += runs.count() * runs.length();
      if (options.progress) options.progress(done, elements);
      current = 1 - current;
    }
  }
  for (std::size_t part = 1; part < parts.size(); ++part) {
    for (std::size_t i = 0; i < count; ++i) parts[0][i].merge(std::move(parts[part][i]));
  }
  for (RunningStatistics& one : parts[0]) one.flush();
  return std::move(parts[0]);
}

}  // namespace headrace::cli
