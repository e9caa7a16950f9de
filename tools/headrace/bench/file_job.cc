// A job on files: requests through a FileQueue of its own, `iodepth` in flight, each a list of blocks or whole files.
#include <algorithm>
#include <cstring>
#include <utility>

#include "bench_job.h"
#include "file_region.h"
#include "offset_generator.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMostFaults = 16, kMostPasses = 64;

FileStats difference(const FileStats& now, const FileStats& then) {
  FileStats out = now;
  out.requests -= then.requests;
  out.ranges -= then.ranges;
  out.waves -= then.waves;
  out.system_calls -= then.system_calls;
  out.direct_bytes -= then.direct_bytes;
  out.buffered_bytes -= then.buffered_bytes;
  out.mapped_bytes -= then.mapped_bytes;
  out.written_direct_bytes -= then.written_direct_bytes;
  out.written_buffered_bytes -= then.written_buffered_bytes;
  out.bus_bytes -= then.bus_bytes;
  return out;
}

class FileJob : public BenchJob {
 public:
  FileJob(const JobOptions& options, unsigned thread, FileRegion region, Context context, Device device)
      : options_(options),
        region_(std::move(region)),
        context_(std::move(context)),
        device_(std::move(device)),
        // Each thread goes its own way over the region, the same way in every run.
        offsets_(region_.blocks, options.random, options.norandommap, mix64(options.seed) + thread),
        clock_(options),
        checker_(options.seed) {}

  Status set_up() override;
  void run(JobResult& result) override;
  std::vector<CacheRange> cache_ranges() const override { return region_.cache_ranges(options_.block_bytes); }

 private:
  struct Slot {
    std::uint64_t begun = 0, submitted = 0;  // nanoseconds
    std::uint64_t bytes = 0, pass = 0;
    std::size_t count = 0;  // ranges
  };

  bool fill_slot(std::size_t index);
  Status submit(std::size_t index);
  void submit_what_fits();
  void take_completions(JobResult& result);
  void count(const Slot& slot, std::uint64_t now, JobResult& result);
  Status write_patterns(const Slot& slot, std::size_t index);
  Status check_slot(std::size_t index, std::uint64_t sequence, VerifyResult& verify);
  Status sync_file(JobResult& result);
  void verify_written(JobResult& result);
  Result<const std::byte*> on_host(std::size_t index);

  const JobOptions options_;
  FileRegion region_;
  Context context_;
  Device device_;
  OffsetGenerator offsets_;
  JobClock clock_;
  VerifyChecker checker_;

  std::optional<FileQueue> queue_;
  Buffer buffer_;
  std::vector<std::byte> host_;  // one slot's bytes, for patterns and checks
  std::size_t slot_bytes_ = 0;
  std::vector<Slot> slots_;
  std::vector<FileRange> ranges_;  // options_.list to a slot
  std::vector<PathRange> paths_;   // the same, with a list of files
  std::vector<std::size_t> free_;
  std::vector<FileCompletion> completions_;

  Status failure_;
  std::uint64_t pass_ = 0, position_ = 0;  // of the next block
  std::uint64_t writes_since_sync_ = 0;
  std::vector<std::uint64_t> pass_ios_;  // completed of each of the first passes
  std::uint64_t last_pass_end_ = 0;
};

Status FileJob::set_up() {
  std::uint64_t largest = options_.block_bytes;
  if (!region_.file) largest = *std::max_element(region_.files_bytes.begin(), region_.files_bytes.end());
  HEADRACE_TRY_ASSIGN(slot_bytes_, check_memory(device_, largest, options_.list));
  constexpr std::size_t kAlign = 4096;
  slot_bytes_ = (slot_bytes_ + kAlign - 1) / kAlign * kAlign;
  HEADRACE_TRY_ASSIGN(const std::size_t bytes, check_memory(device_, slot_bytes_, options_.depth));
  HEADRACE_TRY_ASSIGN(buffer_, Buffer::allocate(device_, bytes));
  FileQueueOptions queue_options;
  queue_options.path = options_.chosen_path();
  // No more than iodepth requests are handed over at a time; what a large one is split into is the queue's own affair.
  queue_options.depth = std::max(queue_options.depth, options_.depth);
  queue_options.network_direct = queue_options.path == Path::kDirect;
  queue_options.skip_io = options_.no_io;
  queue_options.skip_copy = options_.no_copy;
  HEADRACE_TRY_ASSIGN(queue_, FileQueue::create(context_, device_, queue_options));
  slots_.resize(options_.depth);
  ranges_.resize(region_.file ? std::size_t{options_.depth} * options_.list : 0);
  paths_.resize(region_.file ? 0 : std::size_t{options_.depth} * options_.list);
  completions_.resize(options_.depth);
  for (std::size_t i = options_.depth; i-- > 0;) free_.push_back(i);
  pass_ios_.resize(kMostPasses);
  if (!options_.write && !options_.verify) return {};
  host_.resize(slot_bytes_);
  // Neither zeros nor the same everywhere: storage that compresses or deduplicates would not be measured.
  for (std::size_t slot = 0; options_.write && !options_.verify && slot < options_.depth; ++slot) {
    for (std::size_t at = 0; at + 8 <= slot_bytes_; at += 8) {
      const std::uint64_t word = mix64(mix64(options_.seed + slot) + at);
      std::memcpy(host_.data() + at, &word, 8);
    }
    HEADRACE_TRY(buffer_.copy_from_host(slot * slot_bytes_, host_.data(), slot_bytes_));
  }
  return {};
}

// Gives the slot its next blocks; false when there are none, or none yet.
bool FileJob::fill_slot(std::size_t index) {
  if (position_ == offsets_.blocks()) {
    if (!options_.time_based) {
      if (pass_ + 1 >= options_.loops) return false;
      // Passes that are counted do not overlap, so that the first can be told from the later ones.
      if (free_.size() < options_.depth) return false;
    }
    ++pass_;
    position_ = 0;
  }
  Slot& slot = slots_[index];
  slot.bytes = slot.count = 0;
  slot.pass = pass_;
  const std::size_t first = index * options_.list;
  while (slot.count < options_.list && position_ < offsets_.blocks()) {
    const std::uint64_t block = offsets_.block(pass_, position_++);
    std::byte* memory = buffer_.data() + index * slot_bytes_ + slot.bytes;
    if (region_.file) {
      ranges_[first + slot.count] = {region_.offset_bytes + block * options_.block_bytes, memory,
                                     static_cast<std::size_t>(options_.block_bytes)};
      slot.bytes += options_.block_bytes;
    } else {
      const auto file = static_cast<std::size_t>(block);
      paths_[first + slot.count] = {region_.files[file].c_str(), memory,
                                    static_cast<std::size_t>(region_.files_bytes[file])};
      slot.bytes += region_.files_bytes[file];
    }
    ++slot.count;
  }
  return true;
}

Status FileJob::write_patterns(const Slot& slot, std::size_t index) {
  const auto interval = static_cast<std::size_t>(options_.interval_bytes());
  std::size_t at = 0;
  for (std::size_t i = 0; i < slot.count; ++i) {
    const FileRange& range = ranges_[index * options_.list + i];
    for (std::size_t done = 0; done < range.bytes; done += interval, at += interval) {
      fill_verify_block(std::span(host_).subspan(at, interval), range.offset_bytes + done, options_.seed,
                        region_.first_sequence + slot.pass);
    }
  }
  return buffer_.copy_from_host(index * slot_bytes_, host_.data(), at);
}

Status FileJob::submit(std::size_t index) {
  Slot& slot = slots_[index];
  if (options_.write && options_.verify) HEADRACE_TRY(write_patterns(slot, index));
  slot.begun = now_ns();
  const std::size_t first = index * options_.list;
  if (!region_.file) {
    HEADRACE_TRY(queue_->read_paths(std::span(paths_).subspan(first, slot.count), index));
  } else if (options_.write) {
    HEADRACE_TRY(queue_->write(*region_.file, std::span(ranges_).subspan(first, slot.count), index));
    writes_since_sync_ += slot.count;
  } else {
    HEADRACE_TRY(queue_->read(*region_.file, std::span(ranges_).subspan(first, slot.count), index));
  }
  slot.submitted = now_ns();
  return {};
}

void FileJob::submit_what_fits() {
  const std::size_t batch = options_.batch_submit == 0 ? 1 : std::min(options_.batch_submit, options_.depth);
  std::size_t since_flush = 0;
  while (failure_.ok() && !free_.empty()) {
    // A batch goes out whole, unless the pass ends in it.
    if (since_flush == 0 && free_.size() < batch && queue_->pending() > 0) break;
    if (clock_.expired(now_ns())) break;
    if (options_.fsync_every > 0 && writes_since_sync_ >= options_.fsync_every) break;
    const std::size_t index = free_.back();
    if (!fill_slot(index)) break;
    free_.pop_back();
    failure_ = submit(index);
    if (!failure_.ok()) free_.push_back(index);
    if (++since_flush == batch && options_.batch_submit > 0) {
      queue_->flush();
      since_flush = 0;
    }
  }
  // The wait that follows starts the rest, and needs one system call less where it does.
}

void FileJob::count(const Slot& slot, std::uint64_t now, JobResult& result) {
  ++result.requests;
  result.ios += slot.count;
  result.bytes += slot.bytes;
  result.submit.add(slot.submitted - slot.begun);
  result.complete.add(now - slot.submitted);
  result.total.add(now - slot.begun);
}

void FileJob::take_completions(JobResult& result) {
  const std::size_t in_flight = options_.depth - free_.size();
  const std::size_t done = queue_->wait(completions_, std::min<std::size_t>(options_.batch_complete, in_flight));
  const std::uint64_t now = now_ns();
  if (done == 0) failure_ = Status(Code::kInternal, Layer::kApi, "requests are pending, but none completes");
  for (std::size_t i = 0; i < done; ++i) {
    FileCompletion& completion = completions_[i];
    const auto index = static_cast<std::size_t>(completion.tag);
    const Slot& slot = slots_[index];
    Status status = std::move(completion.status);
    if (status.ok() && completion.bytes != slot.bytes) {
      status = Status(Code::kShort, Layer::kApi, "a request completed with fewer bytes than it asked for");
    }
    if (status.ok()) {
      if (clock_.counting()) count(slot, now, result);
      if (slot.pass < kMostPasses) {
        PassTime& pass = result.passes[slot.pass];
        pass.bytes += slot.bytes;
        if ((pass_ios_[slot.pass] += slot.count) == offsets_.blocks()) {
          pass.seconds = static_cast<double>(now - last_pass_end_) * 1e-9;
          last_pass_end_ = now;
        }
      }
      if (options_.verify && !options_.write) status = check_slot(index, 0, result.verify);
    }
    if (!status.ok() && failure_.ok()) failure_ = std::move(status);
    free_.push_back(index);
  }
}

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

Status FileJob::sync_file(JobResult& result) {
  const std::uint64_t begun = now_ns();
  HEADRACE_TRY(region_.file->sync());
  if (clock_.counting()) result.sync.add(now_ns() - begun);
  writes_since_sync_ = 0;
  return {};
}

void FileJob::run(JobResult& result) {
  result.passes.resize(kMostPasses);
  clock_.start();
  last_pass_end_ = now_ns();
  FileStats before;
  while (failure_.ok() || free_.size() < options_.depth) {
    if (clock_.counting_begins(now_ns())) before = queue_->stats();
    submit_what_fits();
    if (free_.size() < options_.depth) {
      take_completions(result);
      if (failure_.code() == Code::kInternal) break;
    } else if (options_.fsync_every > 0 && writes_since_sync_ >= options_.fsync_every && failure_.ok()) {
      failure_ = sync_file(result);
    } else {
      break;
    }
  }
  if (failure_.ok() && options_.end_fsync) failure_ = sync_file(result);
  clock_.finish(result);
  result.stats = difference(queue_->stats(), before);
  std::size_t whole = 0;
  while (whole < kMostPasses && pass_ios_[whole] == offsets_.blocks()) ++whole;
  result.passes.resize(whole);
  if (failure_.ok() && options_.write && options_.verify && options_.do_verify) verify_written(result);
  result.status = std::move(failure_);
  if (!result.status.ok()) result.status = std::move(result.status).with_key(region_.path);
}

// Goes through the last pass again, reading; what that pass did not reach is still as the one before left it.
void FileJob::verify_written(JobResult& result) {
  const std::uint64_t last = pass_, reached = position_;
  const std::uint64_t end = last == 0 ? reached : offsets_.blocks();
  position_ = 0;
  while (failure_.ok() && position_ < end) {
    const std::size_t index = free_.back();
    const std::uint64_t first = position_;
    Slot& slot = slots_[index];
    // A list must not straddle the blocks of two passes.
    const std::uint64_t stop = first < reached ? reached : end;
    slot.bytes = slot.count = 0;
    for (; slot.count < options_.list && position_ < stop; ++slot.count, ++position_) {
      ranges_[index * options_.list + slot.count] = {
          region_.offset_bytes + offsets_.block(last, position_) * options_.block_bytes,
          buffer_.data() + index * slot_bytes_ + slot.bytes, static_cast<std::size_t>(options_.block_bytes)};
      slot.bytes += options_.block_bytes;
    }
    const auto ranges = std::span(ranges_).subspan(index * options_.list, slot.count);
    failure_ = queue_->read(*region_.file, ranges, index);
    if (!failure_.ok()) return;
    if (queue_->wait(std::span(completions_).first(1)) == 1) failure_ = completions_[0].status;
    if (!failure_.ok()) return;
    failure_ = check_slot(index, region_.first_sequence + last - (first < reached ? 0 : 1), result.verify);
  }
}

}  // namespace

Result<std::unique_ptr<BenchJob>> make_file_job(const JobOptions& options, unsigned thread, const Context& context,
                                                const Device& device) {
  HEADRACE_TRY_ASSIGN(FileRegion region, open_region(options, thread));
  return std::unique_ptr<BenchJob>(new FileJob(options, thread, std::move(region), context, device));
}

}  // namespace headrace::bench
