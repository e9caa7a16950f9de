// IndexRuns: a list of indices as runs, in array order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace headrace::zarr {

// `count` indices from `begin` on in equal steps, whose positions in the list are also in equal steps.
struct IndexRun {
  std::uint64_t begin = 0, count = 0, step = 0;  // step 0: one index repeated
  std::uint64_t in_result = 0;
  std::int64_t result_step = 0;
  std::uint64_t last() const noexcept { return begin + (count - 1) * step; }
};

// Runs do not overlap: none begins before the one in front ends. At most one run per index. Throws std::bad_alloc.
using IndexRuns = std::vector<IndexRun>;
std::shared_ptr<const IndexRuns> make_index_runs(std::span<const std::uint64_t> list);

}  // namespace headrace::zarr
