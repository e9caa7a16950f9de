#include "zarr/select/index_runs.h"

#include <algorithm>

namespace headrace::zarr {
namespace {

struct Entry {
  std::uint64_t index, place;
};

// Builds runs from entries in ascending order of index.
class Runs {
 public:
  void add(std::uint64_t index, std::uint64_t place) {
    if (!runs_.empty()) {
      IndexRun& run = runs_.back();
      const std::uint64_t last_place = run.in_result + (run.count - 1) * static_cast<std::uint64_t>(run.result_step);
      const std::uint64_t step = index - run.last();
      const auto result_step = static_cast<std::int64_t>(place - last_place);
      if (run.count == 1 || (step == run.step && result_step == run.result_step)) {
        run.step = step;
        run.result_step = result_step;
        ++run.count;
        return;
      }
      // Two entries with a gap between them, and the next is adjacent to the second: the second may begin a longer run.
      if (run.count == 2 && step == 1 && run.step > 1) {
        --run.count;
        runs_.push_back({run.last() + run.step, 2, step, last_place, result_step});
        return;
      }
    }
    runs_.push_back({index, 1, 0, place, 0});
  }
  std::shared_ptr<const IndexRuns> finish() && {
    runs_.shrink_to_fit();
    return std::make_shared<const IndexRuns>(std::move(runs_));
  }

 private:
  IndexRuns runs_;
};

}  // namespace

std::shared_ptr<const IndexRuns> make_index_runs(std::span<const std::uint64_t> list) {
  Runs runs;
  if (std::is_sorted(list.begin(), list.end())) {
    for (std::size_t i = 0; i < list.size(); ++i) runs.add(list[i], i);
    return std::move(runs).finish();
  }
  std::vector<Entry> entries(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) entries[i] = {list[i], i};
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.index != b.index ? a.index < b.index : a.place < b.place; });
  for (const Entry& entry : entries) runs.add(entry.index, entry.place);
  return std::move(runs).finish();
}

}  // namespace headrace::zarr
