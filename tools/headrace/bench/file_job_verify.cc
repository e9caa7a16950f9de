// The verifying part of a job on files: what was read is checked slot by slot, what was written is read again.
#include <algorithm>
#include <utility>

#include "file_job.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMostFaults = 16;

}  // namespace

Result<const std::byte*> FileJob::on_host(std::size_t index) {
  if (device_.host_addressable()) return buffer_.data() + index * slot_bytes_;
  HEADRACE_TRY(buffer_.copy_to_host(index * slot_bytes_, host_.data(), static_cast<std::size_t>(slots_[index].bytes)));
  return host_.data();
}

// The blocks of a slot that was read. A bad block is a result, not a failure, unless verify_fatal says so.
Status FileJob::check_slot(std::size_t index, std::uint64_t sequence, VerifyResult& verify) {
  HEADRACE_TRY_ASSIGN(const std::byte* bytes, on_host(index));
  const auto interval = static_cast<std::size_t>(options_.interval_bytes());
  for (std::size_t i = 0; i < slots_[index].count; ++i) {
    const FileRange& range = ranges_[index * options_.list + i];
    for (std::size_t done = 0; done < range.bytes; done += interval, bytes += interval) {
      ++verify.blocks;
      auto fault = checker_.check({bytes, interval}, range.offset_bytes + done, sequence);
      if (!fault) continue;
      ++verify.bad;
      if (verify.faults.size() < kMostFaults) verify.faults.push_back(std::move(*fault));
      if (options_.verify_fatal) return Status(Code::kCorrupt, Layer::kApi, "stopped at the first bad block");
    }
  }
  return {};
}

// Goes through the last pass again, reading; what that pass did not reach is still as the one before left it.
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
    // A list must not straddle the blocks of two passes.
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

}  // namespace headrace::bench
