// WrittenBlocks: records which verify blocks a job has written, and in which pass, so that its reads can be checked.
//
// While a block is being written its content is unknown, unless the same content is written again. Threads: one at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace headrace::bench {

// Consecutive blocks written in the same pass.
struct WrittenRun {
  std::uint64_t block = 0, blocks = 0, sequence = 0;
};

class WrittenBlocks {
 public:
  // Memory per block of the files.
  static constexpr std::uint64_t kBytesPerBlock = sizeof(std::uint64_t);
  explicit WrittenBlocks(const std::vector<std::uint64_t>& blocks_of_files);

  // REQUIRES: blocks of the file; 0 < sequence < 2^63, and not less than any before.
  void begin(std::size_t file, std::uint64_t block, std::uint64_t blocks, std::uint64_t sequence) noexcept;
  void end(std::size_t file, std::uint64_t block, std::uint64_t blocks, std::uint64_t sequence) noexcept;

  // The sequence that the block holds; 0 if unknown: not written by this job, or being written.
  std::uint64_t sequence(std::size_t file, std::uint64_t block) const noexcept;

  // The first run of at most `most` blocks of the file, from `block` on.
  std::optional<WrittenRun> run_from(std::size_t file, std::uint64_t block, std::uint64_t most) const noexcept;

 private:
  static constexpr std::uint64_t kBeingWritten = std::uint64_t{1} << 63;
  std::vector<std::vector<std::uint64_t>> files_;  // per block its sequence, possibly with kBeingWritten
};

}  // namespace headrace::bench
