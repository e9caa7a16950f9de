#include "written_blocks.h"

namespace headrace::bench {

WrittenBlocks::WrittenBlocks(const std::vector<std::uint64_t>& blocks_of_files) {
  files_.reserve(blocks_of_files.size());
  for (const std::uint64_t blocks : blocks_of_files) files_.emplace_back(static_cast<std::size_t>(blocks));
}

void WrittenBlocks::begin(std::size_t file, std::uint64_t block, std::uint64_t blocks,
                          std::uint64_t sequence) noexcept {
  for (std::uint64_t i = block; i < block + blocks; ++i) {
    std::uint64_t& entry = files_[file][static_cast<std::size_t>(i)];
    if (entry != sequence) entry = sequence | kBeingWritten;
  }
}

void WrittenBlocks::end(std::size_t file, std::uint64_t block, std::uint64_t blocks, std::uint64_t sequence) noexcept {
  for (std::uint64_t i = block; i < block + blocks; ++i) files_[file][static_cast<std::size_t>(i)] = sequence;
}

std::uint64_t WrittenBlocks::sequence(std::size_t file, std::uint64_t block) const noexcept {
  const std::uint64_t entry = files_[file][static_cast<std::size_t>(block)];
  return (entry & kBeingWritten) != 0 ? 0 : entry;
}

std::optional<WrittenRun> WrittenBlocks::run_from(std::size_t file, std::uint64_t block,
                                                  std::uint64_t most) const noexcept {
  const std::uint64_t end = files_[file].size();
  while (block < end && sequence(file, block) == 0) ++block;
  if (block >= end) return std::nullopt;
  WrittenRun run{block, 1, sequence(file, block)};
  while (run.blocks < most && block + run.blocks < end && sequence(file, block + run.blocks) == run.sequence) {
    ++run.blocks;
  }
  return run;
}

}  // namespace headrace::bench
