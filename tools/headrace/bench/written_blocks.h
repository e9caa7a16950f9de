// WrittenBlocks: which verify blocks of its files a job has written, and in which pass, so that what it reads of
// them can be checked.
//
// A block that is being written has no contents that could be expected, but where it is written anew with the same
// ones. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace headrace::bench {

// Blocks that lie one behind the other, all written in one pass.
struct WrittenRun {
  std::uint64_t block = 0, blocks = 0, sequence = 0;
};

class WrittenBlocks {
 public:
  // Memory for files of so many blocks.
  static constexpr std::uint64_t kBytesPerBlock = sizeof(std::uint64_t);
  explicit WrittenBlocks(const std::vector<std::uint64_t>& blocks_of_files);

  // REQUIRES: blocks of the file; a sequence above 0 and below 2^63, not less than any before.
  void begin(std::size_t file, std::uint64_t block, std::uint64_t blocks, std::uint64_t sequence) noexcept;
  void end(std::size_t file, std::uint64_t block, std::uint64_t blocks, std::uint64_t sequence) noexcept;

  // The sequence that the block holds; 0: nobody knows, since it was not written here or is being written.
  std::uint64_t sequence(std::size_t file, std::uint64_t block) const noexcept;

  // The first run of at most `most` blocks of the file from `block` on.
  std::optional<WrittenRun> run_from(std::size_t file, std::uint64_t block, std::uint64_t most) const noexcept;

 private:
  static constexpr std::uint64_t kBeingWritten = std::uint64_t{1} << 63;
  std::vector<std::vector<std::uint64_t>> files_;  // of each block its sequence, perhaps with kBeingWritten
};

}  // namespace headrace::bench
