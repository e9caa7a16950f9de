// ReadDelivery: delivers an array's elements in parts to a file and a hash. It uses two buffers: while one part is
// written, the next is read.
#pragma once

#include <headrace/array.h>
#include <headrace/device.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <cstdint>
#include <span>

#include "output_file.h"
#include "progress_bar.h"
#include "read_slabs.h"
#include "report/run_report.h"
#include "sha256.h"

namespace headrace::cli {

class ReadDelivery {
 public:
  struct To {
    OutputFile* output = nullptr;  // null: no output
    std::uint64_t offset = 0;      // of the first element in the output
    Sha256* hash = nullptr;
    bool any() const { return output != nullptr || hash != nullptr; }
  };
  ReadDelivery(const Array& array, const Device& device, DataType dtype, ReadOptions options, RunReport& report);

  // Allocates memory for the parts before anything is read.
  Status allocate(const ReadSlabs& slabs);
  // Delivers all parts. `shape`: of the result.
  Status run(ReadSlabs& slabs, const To& to, std::span<const std::uint64_t> shape, ProgressBar& bar);
  bool output_failed() const noexcept { return output_failed_; }  // why run() failed: true: the output, false: the read
  const Stats& stats() const noexcept { return stats_; }

 private:
  Result<Completion> start(const ReadSlab& slab, std::size_t buffer);
  Status finish(Result<Completion>& reading);
  Status deliver(const ReadSlab& slab, const Buffer& buffer, bool in_order, std::span<const std::uint64_t> shape);
  Status take(std::span<const std::byte> bytes);

  const Array& array_;
  const Device& device_;
  const DataType dtype_;
  ReadOptions options_;
  RunReport& report_;
  To to_;
  Buffer buffers_[2];
  Stats stats_;
  std::uint64_t total_bytes_ = 0, done_bytes_ = 0;
  bool output_failed_ = false;
};

}  // namespace headrace::cli
