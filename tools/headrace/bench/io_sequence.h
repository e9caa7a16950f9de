// IoSequence: which I/O comes next: direction, file, offset and size, in passes over the regions of a job's files.
//
// A function of seed, pass and the number of I/Os taken in the pass, so that a pass can be gone through again. With one
// block size, at random, without norandommap or a distribution, a pass visits each block once; in all other cases a
// pass ends when as many bytes were visited as the regions have. Each direction of a mixed sequential job goes its own
// way.
//
// Threads: one at a time. Taking an I/O allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "block_sizes.h"
#include "distribution.h"
#include "job_options.h"
#include "offset_generator.h"

namespace headrace::bench {

struct Io {
  std::uint64_t offset = 0, bytes = 0;  // in the file's region
  std::size_t file = 0;
  bool write = false;
};

class IoSequence {
 public:
  // REQUIRES: at least one region, each of at least one block of either direction that is used.
  IoSequence(const JobOptions& options, const std::vector<std::uint64_t>& region_bytes, std::uint64_t seed);

  void begin_pass(std::uint64_t pass);
  // The next I/O; nullptr: the pass is over. The same one until pop().
  const Io* peek();
  void pop() noexcept { have_ = false; }
  // Whether the I/O that peek() gives may be in one request with the one before: `list` of one file and direction.
  bool joins() const noexcept { return joins_; }

  bool each_block_once() const noexcept { return each_once_; }

 private:
  struct FileState {
    OffsetGenerator map;
    Distribution distribution;
    ZoneMap zones[2];  // of reads and of writes
    std::uint64_t bytes = 0, positions = 0;
    // In this pass:
    std::uint64_t position = 0, done = 0;
    std::uint64_t cursor[2] = {0, 0}, last = 0;
    unsigned run = 0;  // sequential I/Os until the next random one
  };

  bool ended(const FileState& file) const noexcept;
  void choose_file(std::uint64_t draw);
  std::uint64_t random_offset(FileState& file, bool write, std::uint64_t draw);

  // Not a reference to the options: a sequence is copied to go through a pass again.
  BlockSizes sizes_[2];  // read, write
  DistributionKind::Law law_, service_law_;
  bool random_, mixed_, write_, unaligned_, sizes_by_order_, each_once_, whole_, run_repeats_;
  unsigned read_percent_, percent_random_, list_, sequential_run_, service_ios_;
  std::uint64_t hole_bytes_, seed_, unit_ = 1, least_ = 1;
  FileService service_;
  Distribution service_distribution_;  // of kDrawn
  std::vector<FileState> files_;
  std::vector<std::size_t> live_;  // that have something left in this pass

  std::uint64_t pass_ = 0, key_ = 0, taken_ = 0;
  std::size_t turn_ = 0;  // in live_
  unsigned service_left_ = 0, group_left_ = 0;
  Io next_;
  bool have_ = false, joins_ = false;
};

}  // namespace headrace::bench
