// The verification part of a file job: checks each slot after a read, and reads back what was written.
#include <algorithm>
#include <numeric>
#include <utility>

#include "cli_common.h"
#include "file_job.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxFaults = 16;

}  // namespace

// If each block is written once per pass, the pass determines its content; other jobs need a record.
Status FileJob::set_up_verify() {
  if (!options_.tracks_written()) return {};
  std::vector<std::uint64_t> blocks;
  std::uint64_t bytes = 0;
  for (const RegionFile& file : region_.files) {
    blocks.push_back(file.bytes / options_.interval_bytes());
    bytes += blocks.back() * WrittenBlocks::kBytesPerBlock;
  }
  if (bytes > cli::host_memory_bytes()) {
    return {Code::kResourceExhausted, Layer::kApi,
            "verify needs " + cli::human_bytes(bytes) +
                " to remember which blocks this job wrote: give a smaller size or a larger verify_interval"};
  }
  written_.emplace(blocks);
  slot_blocks_ = slot_bytes_ / static_cast<std::size_t>(options_.interval_bytes());
  expected_.resize(slot_blocks_ * options_.depth);
  return {};
}

void FileJob::remember_started(std::size_t index) {
  const Slot& slot = slots_[index];
  const std::uint64_t interval = options_.interval_bytes(), start = region_.files[slot.file].offset_bytes;
  std::size_t at = index * slot_blocks_;
  for (const FileRange& range : std::span(ranges_).subspan(index * options_.list, slot.count)) {
    const std::uint64_t first = (range.offset_bytes - start) / interval, blocks = range.bytes / interval;
    if (slot.write) {
      written_->begin(slot.file, first, blocks, sequence_of(slot));
    } else {
      for (std::uint64_t i = 0; i < blocks; ++i) expected_[at++] = written_->sequence(slot.file, first + i);
    }
  }
}

void FileJob::remember_written(std::size_t index) {
  const Slot& slot = slots_[index];
  const std::uint64_t interval = options_.interval_bytes(), start = region_.files[slot.file].offset_bytes;
  for (const FileRange& range : std::span(ranges_).subspan(index * options_.list, slot.count)) {
    written_->end(slot.file, (range.offset_bytes - start) / interval, range.bytes / interval, sequence_of(slot));
  }
}

Result<const std::byte*> FileJob::on_host(std::size_t index) {
  if (device_.host_addressable()) return buffer_.data() + index * slot_bytes_;
  HEADRACE_TRY(buffer_.copy_to_host(index * slot_bytes_, host_.data(), static_cast<std::size_t>(slots_[index].bytes)));
  return host_.data();
}

// Checks the blocks of a slot that was read. A bad block is a result, not a failure, except with verify_fatal.
Status FileJob::check_slot(std::size_t index, std::uint64_t sequence, VerifyResult& verify) {
  HEADRACE_TRY_ASSIGN(const std::byte* bytes, on_host(index));
  const auto interval = static_cast<std::size_t>(options_.interval_bytes());
  const std::size_t file = slots_[index].file;
  std::size_t at = index * slot_blocks_;
  for (std::size_t i = 0; i < slots_[index].count; ++i) {
    const FileRange& range = ranges_[index * options_.list + i];
    for (std::size_t done = 0; done < range.bytes; done += interval, bytes += interval) {
      if (written_) {
        // A block that this job has not written, or that was being written at the start or end of the read, may hold
        // anything.
        const std::uint64_t block = (range.offset_bytes + done - region_.files[file].offset_bytes) / interval;
        sequence = expected_[at++];
        if (sequence == 0 || written_->sequence(file, block) != sequence) continue;
      }
      ++verify.blocks;
      auto fault = checker_.check({bytes, interval}, range.offset_bytes + done, sequence);
      if (!fault) continue;
      ++verify.bad;
      if (verify.faults.size() < kMaxFaults) verify.faults.push_back(std::move(*fault));
      if (options_.verify_fatal) return Status(Code::kCorrupt, Layer::kApi, "stopped at the first bad block");
    }
  }
  return {};
}

// Repeats the last pass with reads. Blocks that it did not reach still hold the content of the previous pass.
void FileJob::verify_written(JobResult& result) {
  const std::uint64_t last = pass_, reached = taken_;
  sequence_.begin_pass(last);
  for (std::uint64_t taken = 0; failure_.ok() && !monitor_->stopped();) {
    if (taken >= reached && last == 0) return;
    const Io* io = sequence_.peek();
    if (io == nullptr) return;
    const std::size_t index = free_.back();
    Slot& slot = slots_[index];
    slot.bytes = slot.count = 0;
    slot.file = io->file;
    slot.write = false;
    const bool of_last = taken < reached;
    // A list must not contain blocks of two passes.
    do {
      ranges_[index * options_.list + slot.count] = {region_.files[io->file].offset_bytes + io->offset,
                                                     buffer_.data() + index * slot_bytes_ + slot.bytes,
                                                     static_cast<std::size_t>(io->bytes)};
      slot.bytes += io->bytes;
      ++slot.count;
      ++taken;
      sequence_.pop();
    } while (slot.count < options_.list && taken != reached && (io = sequence_.peek()) != nullptr && sequence_.joins());
    const auto ranges = std::span(ranges_).subspan(index * options_.list, slot.count);
    failure_ = queue_->read(*region_.files[slot.file].file, ranges, index);
    if (!failure_.ok()) return;
    if (queue_->wait(std::span(completions_).first(1)) == 1) failure_ = completions_[0].status;
    if (!failure_.ok()) return;
    const std::uint64_t sequence = region_.files[slot.file].first_sequence + last - (of_last ? 0 : 1);
    failure_ = check_slot(index, sequence, result.verify);
  }
}

// Checks every block that the job wrote, in file order, as many at a time as a slot can hold.
void FileJob::verify_tracked(JobResult& result) {
  const std::uint64_t interval = options_.interval_bytes();
  // Pieces start at possible block boundaries, as direct I/O requires.
  std::uint64_t step = 0;
  for (const unsigned which : {0u, 1u}) {
    if (options_.uses_sizes(which)) step = std::gcd(step, options_.sizes[which].divisor(options_.unaligned) / interval);
  }
  const std::uint64_t most = slot_blocks_ / step * step;
  const std::size_t index = free_.back();
  for (std::size_t file = 0; file < region_.files.size(); ++file) {
    const RegionFile& of = region_.files[file];
    for (auto run = written_->run_from(file, 0, most); run;
         run = written_->run_from(file, run->block + run->blocks, most)) {
      if (!failure_.ok() || monitor_->stopped()) return;
      const auto bytes = static_cast<std::size_t>(run->blocks * interval);
      Slot& slot = slots_[index];
      slot.bytes = bytes;
      slot.count = 1;
      slot.file = file;
      slot.write = false;
      FileRange& range = ranges_[index * options_.list];
      range = {of.offset_bytes + run->block * interval, buffer_.data() + index * slot_bytes_, bytes};
      remember_started(index);
      failure_ = queue_->read(*of.file, std::span(&range, 1), index);
      if (failure_.ok() && queue_->wait(std::span(completions_).first(1)) == 1) failure_ = completions_[0].status;
      if (failure_.ok()) failure_ = check_slot(index, 0, result.verify);
    }
  }
}

}  // namespace headrace::bench
