// IoSequence: generates a job's I/Os (direction, file, offset, size) in passes over the regions of its files.
//
// The sequence depends only on the seed, the pass and the number of I/Os taken in the pass, so a pass can be repeated.
// With random order and a single block size, without norandommap or a distribution, a pass visits each block once.
// Otherwise a pass ends when it has visited as many bytes as the regions hold. In a mixed sequential job each direction
// advances separately.
//
// Threads: one at a time. Taking an I/O does not allocate.
#pragma once

#include <cstdint>
#include <vector>

#include "block_sizes.h"
#include "distribution.h"
#include "job_options.h"
#include "offset_generator.h"

namespace headrace::bench {

struct Io {
  std::uint64_t offset = 0, bytes = 0;  // within the file's region
  std::size_t file = 0;
  bool write = false;
};

class IoSequence {
 public:
  // REQUIRES: at least one region, each with at least one block of every direction that is used.
  IoSequence(const JobOptions& options, const std::vector<std::uint64_t>& region_bytes, std::uint64_t seed);

  void begin_pass(std::uint64_t pass);
  // The next I/O, until pop(); nullptr at the end of the pass.
  const Io* peek();
  void pop() noexcept { have_ = false; }
  // Whether the I/O from peek() may share a request with the previous one: same file and direction, up to `list` I/Os.
  bool joins() const noexcept { return joins_; }

  bool each_block_once() const noexcept { return each_once_; }

 private:
  struct FileState {
    OffsetGenerator map;
    Distribution distribution;
    ZoneMap zones[2];  // for reads and for writes
    std::uint64_t bytes = 0, positions = 0;
    // State of this pass:
    std::uint64_t position = 0, done = 0;
    std::uint64_t cursor[2] = {0, 0}, last = 0;
    unsigned run = 0;  // sequential I/Os left before the next random one
  };

  bool ended(const FileState& file) const noexcept;
  void choose_file(std::uint64_t draw);
  std::uint64_t random_offset(FileState& file, bool write, std::uint64_t draw);

  // Copies, not a reference to the options: a sequence is copied to repeat a pass.
  BlockSizes sizes_[2];  // read, write
  DistributionKind::Law law_, service_law_;
  bool random_, mixed_, write_, unaligned_, sizes_by_order_, each_once_, whole_, run_repeats_;
  unsigned read_percent_, percent_random_, list_, sequential_run_, service_ios_;
  std::uint64_t hole_bytes_, seed_, unit_ = 1, least_ = 1;
  FileService service_;
  Distribution service_distribution_;  // for kDrawn
  std::vector<FileState> files_;
  std::vector<std::size_t> unfinished_files_;  // files with I/Os left in this pass

  std::uint64_t pass_ = 0, key_ = 0, taken_ = 0;
  std::size_t turn_ = 0;  // index into unfinished_files_
  unsigned service_left_ = 0, group_left_ = 0;
  Io next_;
  bool have_ = false, joins_ = false;
};

}  // namespace headrace::bench
