// VariableDelivery: delivers variable-length elements in parts to files and hashes.
#pragma once

#include <headrace/array.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "progress_bar.h"
#include "read_slabs.h"
#include "report/run_report.h"
#include "variable_writer.h"

namespace headrace::cli {

class VariableDelivery {
 public:
  // Assumed element size before any has been read.
  static constexpr std::uint64_t kGuessedItemBytes = 64;
  // Limit for a read that is not split, and for a part that cannot be smaller.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

  // `part_bytes`: the budget by which the parts were chosen.
  VariableDelivery(const Array& array, std::uint64_t part_bytes, RunReport& report, ProgressBar& bar);

  // Delivers all parts. `elements`: their number in the selection.
  Status run(ReadSlabs& slabs, std::uint64_t elements, std::span<VariableWriter* const> writers);

  bool output_failed() const noexcept { return output_failed_; }  // why run() failed: true: the output, false: the read
  const Stats& stats() const noexcept { return stats_; }          // of the parts that were delivered
  std::uint64_t elements() const noexcept { return done_; }
  std::uint64_t bytes() const noexcept { return bytes_; }                        // of the elements
  const std::vector<std::string>& preview() const noexcept { return preview_; }  // the first elements, shortened

 private:
  Result<VariableResult> read(ReadSlabs& slabs, ReadSlab& slab);
  Status write(const VariableResult& part, std::span<VariableWriter* const> writers);
  void preview(const VariableResult& part);

  const Array& array_;
  const std::uint64_t part_bytes_;
  RunReport& report_;
  ProgressBar& bar_;
  Stats stats_;
  std::vector<std::string> preview_;
  std::uint64_t elements_ = 0, done_ = 0, bytes_ = 0;
  bool output_failed_ = false;
};

inline constexpr std::uint64_t kPreviewElements = 10;

}  // namespace headrace::cli
