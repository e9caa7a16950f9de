#include "file_job.h"

#include <headrace_bench/file_queue.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "bench_units.h"
#include "cli_common.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxPasses = 64;
constexpr std::uint64_t kSample = 500'000'000;  // nanoseconds, like fio's bwavgtime

FileStats difference(const FileStats& now, const FileStats& then) {
  FileStats out = now;
  out.requests -= then.requests;
  out.ranges -= then.ranges;
  out.waves -= then.waves;
  out.system_calls -= then.system_calls;
  out.direct_bytes -= then.direct_bytes;
  out.straight_bytes -= then.straight_bytes;
  out.buffered_bytes -= then.buffered_bytes;
  out.mapped_bytes -= then.mapped_bytes;
  out.written_direct_bytes -= then.written_direct_bytes;
  out.written_buffered_bytes -= then.written_buffered_bytes;
  out.bus_bytes -= then.bus_bytes;
  return out;
}

// Each thread has a different order, which is the same in every run unless randrepeat=0.
std::uint64_t order_seed(const JobOptions& options, unsigned thread) {
  return mix64(options.repeatable ? options.seed : options.seed ^ now_ns()) + thread;
}

// In a list of files, each file is one block.
IoSequence make_sequence(const JobOptions& options, const FileRegion& region, std::uint64_t seed) {
  std::vector<std::uint64_t> bytes;
  if (!region.whole_files) {
    for (const RegionFile& file : region.files) bytes.push_back(file.bytes);
    return {options, bytes, seed};
  }
  JobOptions files = options;
  files.sizes[0] = files.sizes[1] = BlockSizes(1);
  files.sizes_by_order = false;
  files.align_bytes = files.hole_bytes = 0;
  return {files, {region.files.size()}, seed};
}

std::uint64_t nanoseconds(double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); }

}  // namespace

FileJob::FileJob(const JobOptions& options, unsigned thread, FileRegion region, Context context, Device device)
    : options_(options),
      region_(std::move(region)),
      context_(std::move(context)),
      device_(std::move(device)),
      sequence_(make_sequence(options, region_, order_seed(options, thread))),
      clock_(options),
      format_(options.seed, options.verify, options.verify_pattern),
      checker_(format_),
      log_(options.log) {
  for (unsigned i = 0; i < 2; ++i) {
    limits_[i] = RateLimit(options.rate[i], options.rate_iops[i], options.rate_poisson, options.seed + thread + i);
  }
}

FileJob::~FileJob() {
  if (!options_.unlink) return;
  queue_.reset();
  region_.remove_made();
}

std::uint64_t FileJob::expected_bytes() const {
  std::uint64_t bytes = region_.io_bytes;
  for (const RegionFile& file : region_.files) bytes += region_.io_bytes == 0 ? file.bytes : 0;
  return __builtin_mul_overflow(bytes, options_.loops, &bytes) ? 0 : bytes;
}

Status FileJob::write_logs(unsigned thread) const { return log_.write(options_.name, thread); }

Status FileJob::set_up() {
  std::uint64_t largest = options_.largest_block();
  if (region_.whole_files) {
    largest = 0;
    for (const RegionFile& file : region_.files) largest = std::max(largest, file.bytes);
  }
  HEADRACE_TRY_ASSIGN(slot_bytes_, check_memory(device_, largest, options_.list));
  constexpr std::size_t kAlign = 4096;
  slot_bytes_ = (slot_bytes_ + kAlign - 1) / kAlign * kAlign;
  HEADRACE_TRY_ASSIGN(const std::size_t bytes, check_memory(device_, slot_bytes_, options_.depth));
  HEADRACE_TRY_ASSIGN(buffer_, Buffer::allocate(device_, bytes));
  FileQueueOptions queue_options;
  queue_options.path = options_.chosen_path();
  // At most iodepth requests are submitted at a time; the queue may split large ones further.
  queue_options.depth = std::max(queue_options.depth, options_.depth);
  queue_options.network_direct = queue_options.path == Path::kDirect;
  const QueueSkips skips{.io = options_.skips_io(), .copy = options_.no_copy};
  HEADRACE_TRY_ASSIGN(queue_, make_file_queue(context_, device_, queue_options, skips));
  slots_.resize(options_.depth);
  ranges_.resize(region_.whole_files ? 0 : std::size_t{options_.depth} * options_.list);
  paths_.resize(region_.whole_files ? std::size_t{options_.depth} * options_.list : 0);
  completions_.resize(options_.depth);
  for (std::size_t i = options_.depth; i-- > 0;) free_.push_back(i);
  pass_ios_.resize(kMaxPasses);
  pass_taken_.resize(kMaxPasses);
  if (!options_.write && !options_.verifies()) return {};
  host_.resize(slot_bytes_);
  HEADRACE_TRY(set_up_verify());
  for (std::size_t slot = 0; options_.write && !options_.verifies() && slot < options_.depth; ++slot) {
    // Not zeros, and different everywhere: storage that compresses or deduplicates must not have less to write.
    for (std::size_t at = 0; at + 8 <= slot_bytes_; at += 8) {
      const std::uint64_t word = mix64(mix64(options_.seed + slot) + at);
      std::memcpy(host_.data() + at, &word, 8);
    }
    fill_buffers();
    HEADRACE_TRY(buffer_.copy_from_host(slot * slot_bytes_, host_.data(), slot_bytes_));
  }
  return {};
}

// Fills the buffers with the job's pattern or compressible data instead of random bytes.
void FileJob::fill_buffers() {
  const auto fill = [this](std::span<std::byte> bytes) {
    if (options_.buffer_pattern.empty()) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    } else if (!bytes.empty()) {
      fill_with_pattern(bytes, options_.buffer_pattern, 0);
    }
  };
  if (options_.zero_buffers || (options_.compress_percent == 0 && !options_.buffer_pattern.empty())) return fill(host_);
  const auto chunk = static_cast<std::size_t>(std::min<std::uint64_t>(options_.compress_chunk_bytes, host_.size()));
  for (std::size_t at = 0; options_.compress_percent > 0 && at < host_.size(); at += chunk) {
    const std::size_t bytes = std::min(chunk, host_.size() - at),
                      kept = bytes * (100 - options_.compress_percent) / 100;
    fill(std::span(host_).subspan(at + kept, bytes - kept));
  }
}

bool FileJob::limit_reached() const noexcept {
  std::uint64_t most = region_.io_bytes;
  if (most > 0 && __builtin_mul_overflow(most, options_.loops, &most)) most = UINT64_MAX;
  return (options_.number_ios > 0 && issued_ios_ >= options_.number_ios) ||
         (most > 0 && !options_.time_based && issued_bytes_ >= most);
}

// The next I/O of this pass or of a new one; nullptr if there is none at present.
const Io* FileJob::next_io() {
  if (limit_reached()) return nullptr;
  if (const Io* io = sequence_.peek()) return io;
  end_pass(now_ns(), *result_);
  if (!options_.time_based && region_.io_bytes == 0 && pass_ + 1 >= options_.loops) return nullptr;
  // Passes must not overlap if they are counted, to separate the first from later ones, or if blocks are verified
  // individually, since the order of two writes of a block is undefined.
  if ((!options_.time_based || written_) && in_flight() > 0) return nullptr;
  sequence_.begin_pass(++pass_);
  taken_ = 0;
  return sequence_.peek();
}

void FileJob::fill_slot(std::size_t index, const Io* io) {
  Slot& slot = slots_[index];
  slot.bytes = slot.count = 0;
  slot.pass = pass_;
  slot.write = io->write;
  slot.file = region_.whole_files ? 0 : io->file;
  const std::size_t first = index * options_.list;
  do {
    std::byte* memory = buffer_.data() + index * slot_bytes_ + slot.bytes;
    if (region_.whole_files) {
      const RegionFile& file = region_.files[static_cast<std::size_t>(io->offset)];
      paths_[first + slot.count] = {file.path.c_str(), memory, static_cast<std::size_t>(file.bytes)};
      slot.bytes += file.bytes;
    } else {
      ranges_[first + slot.count] = {region_.files[io->file].offset_bytes + io->offset, memory,
                                     static_cast<std::size_t>(io->bytes)};
      slot.bytes += io->bytes;
    }
    ++slot.count;
    ++taken_;
    ++issued_ios_;
    sequence_.pop();
  } while (slot.count < options_.list && !(options_.number_ios > 0 && issued_ios_ >= options_.number_ios) &&
           (io = sequence_.peek()) != nullptr && sequence_.joins());
  issued_bytes_ += slot.bytes;
}

Status FileJob::write_patterns(const Slot& slot, std::size_t index) {
  const auto interval = static_cast<std::size_t>(options_.interval_bytes());
  std::size_t at = 0;
  for (std::size_t i = 0; i < slot.count; ++i) {
    const FileRange& range = ranges_[index * options_.list + i];
    for (std::size_t done = 0; done < range.bytes; done += interval, at += interval) {
      fill_verify_block(std::span(host_).subspan(at, interval), range.offset_bytes + done, format_, sequence_of(slot));
    }
  }
  return buffer_.copy_from_host(index * slot_bytes_, host_.data(), at);
}

Status FileJob::submit(std::size_t index) {
  Slot& slot = slots_[index];
  if (slot.write && options_.verifies()) HEADRACE_TRY(write_patterns(slot, index));
  if (written_) remember_started(index);
  slot.begun = now_ns();
  const std::size_t first = index * options_.list;
  if (region_.whole_files) {
    HEADRACE_TRY(queue_->read_paths(std::span(paths_).subspan(first, slot.count), index));
  } else if (slot.write) {
    const File& file = *region_.files[slot.file].file;
    HEADRACE_TRY(queue_->write(file, std::span(ranges_).subspan(first, slot.count), index));
    writes_since_sync_ += slot.count;
  } else {
    const File& file = *region_.files[slot.file].file;
    HEADRACE_TRY(queue_->read(file, std::span(ranges_).subspan(first, slot.count), index));
  }
  slot.submitted = now_ns();
  return {};
}

void FileJob::submit_until_full() {
  const std::size_t batch = options_.batch_submit == 0 ? 1 : std::min(options_.batch_submit, options_.depth);
  std::size_t since_flush = 0;
  wake_ = 0;
  if (draining_ && in_flight() <= options_.depth_low) draining_ = false;
  while (failure_.ok() && !free_.empty() && !draining_) {
    // A batch is submitted whole unless the pass ends within it.
    if (since_flush == 0 && free_.size() < batch && queue_->pending() > 0) break;
    const std::uint64_t now = now_ns();
    // At least one I/O is issued, even if the runtime expires before the thread runs.
    if ((clock_.expired(now) && issued_ios_ > 0) || monitor_->stopped()) break;
    if (options_.fsync_every > 0 && writes_since_sync_ >= options_.fsync_every) break;
    const Io* io = next_io();
    if (io == nullptr) break;
    const RateLimit& limit = limits_[io->write ? 1 : 0];
    if (const std::uint64_t due = std::max(think_until_, limit.limits() ? limit.due() : 0); due > now) {
      wake_ = std::min(due, clock_.end());
      break;
    }
    const std::size_t index = free_.back();
    fill_slot(index, io);
    free_.pop_back();
    failure_ = submit(index);
    if (!failure_.ok()) free_.push_back(index);
    count_issued(slots_[index], now);
    if (++since_flush == batch && options_.batch_submit > 0) {
      queue_->flush();
      since_flush = 0;
    }
  }
  draining_ = draining_ || (options_.depth_low > 0 && free_.empty());
  // The rest is submitted by the following wait, which saves a system call.
}

void FileJob::count_issued(const Slot& slot, std::uint64_t now) {
  RateLimit& limit = limits_[slot.write ? 1 : 0];
  if (limit.limits()) limit.begun(now, slot.bytes, slot.count);
  if (options_.think_after_issue) think(slot.count, now);
}

// Counts `blocks` completed or issued, and decides whether a pause is due.
void FileJob::think(std::uint64_t blocks, std::uint64_t now) {
  if (options_.think_seconds == 0) return;
  think_count_ += blocks;
  const bool due = options_.think_io_seconds > 0 ? now - thought_at_ >= nanoseconds(options_.think_io_seconds)
                                                 : think_count_ >= options_.think_blocks;
  if (!due || think_until_ > now) return;
  think_count_ = 0;
  think_until_ = thought_at_ = now + nanoseconds(options_.think_seconds);
}

// Called if nothing is in flight and a limit delays the next I/O.
void FileJob::pause() {
  std::uint64_t now = now_ns();
  if (wake_ == think_until_ && options_.think_spin_seconds > 0) {
    const std::uint64_t until = std::min(wake_, now + nanoseconds(options_.think_spin_seconds));
    while (now < until && !monitor_->stopped()) now = now_ns();
  }
  constexpr std::uint64_t kSlice = 50'000'000;  // upper bound of the delay in noticing an interrupt
  if (now < wake_) std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(wake_ - now, kSlice)));
}

void FileJob::count(const Slot& slot, std::size_t index, std::uint64_t now, JobResult& result) {
  DirectionResult& side = slot.write ? result.write : result.read;
  ++side.requests;
  side.ios += slot.count;
  side.bytes += slot.bytes;
  side.submit.add(slot.submitted - slot.begun);
  side.complete.add(now - slot.submitted);
  side.total.add(now - slot.begun);
  if (options_.log.any()) {
    const std::uint64_t offset = region_.whole_files ? 0 : ranges_[index * options_.list].offset_bytes;
    log_.add({now, slot.submitted - slot.begun, now - slot.submitted, now - slot.begun, slot.bytes, slot.count, offset,
              slot.write});
  }
}

void FileJob::count_pass(const Slot& slot, std::uint64_t now, JobResult& result) {
  if (slot.pass >= kMaxPasses) return;
  result.passes[slot.pass].bytes += slot.bytes;
  pass_ios_[slot.pass] += slot.count;
  if (pass_ios_[slot.pass] != pass_taken_[slot.pass]) return;
  result.passes[slot.pass].seconds = static_cast<double>(now - last_pass_end_) * 1e-9;
  last_pass_end_ = now;
}

// All I/Os of the pass have been issued; its last completion may already have been counted.
void FileJob::end_pass(std::uint64_t now, JobResult& result) {
  if (pass_ >= kMaxPasses || pass_taken_[pass_] != 0) return;
  pass_taken_[pass_] = taken_;
  if (pass_ios_[pass_] != taken_) return;
  result.passes[pass_].seconds = static_cast<double>(now - last_pass_end_) * 1e-9;
  last_pass_end_ = now;
}

void FileJob::take_completions(JobResult& result) {
  const std::size_t most = options_.batch_complete_max == 0 ? completions_.size() : options_.batch_complete_max;
  const std::size_t room = std::min(completions_.size(), std::max<std::size_t>(most, options_.batch_complete));
  const std::size_t least = std::min<std::size_t>(options_.batch_complete, in_flight());
  std::size_t done = 0;
  if (wake_ == 0) {
    done = queue_->wait(std::span(completions_).first(room), least);
    if (done == 0) failure_ = Status(Code::kInternal, Layer::kApi, "requests are pending, but none completes");
  } else {
    const std::uint64_t now = now_ns();
    done = queue_->wait(std::span(completions_).first(room), least,
                        std::chrono::nanoseconds(wake_ > now ? std::min<std::uint64_t>(wake_ - now, 50'000'000) : 0));
  }
  const std::uint64_t now = now_ns(), ios_before = done_ios_;
  for (std::size_t i = 0; i < done; ++i) {
    FileCompletion& completion = completions_[i];
    const auto index = static_cast<std::size_t>(completion.tag);
    const Slot& slot = slots_[index];
    Status status = std::move(completion.status);
    if (status.ok() && completion.bytes != slot.bytes) {
      status = Status(Code::kShort, Layer::kApi, "a request completed with fewer bytes than it asked for");
    }
    if (status.ok()) {
      done_bytes_ += slot.bytes;
      done_ios_ += slot.count;
      window_.bytes[slot.write ? 1 : 0] += slot.bytes;
      window_.ios[slot.write ? 1 : 0] += slot.count;
      if (clock_.counting()) {
        sample_.bytes[slot.write ? 1 : 0] += slot.bytes;
        sample_.ios[slot.write ? 1 : 0] += slot.count;
        count(slot, index, now, result);
      }
      count_pass(slot, now, result);
      if (written_ && slot.write) remember_written(index);
      if (options_.verifies() && !slot.write) status = check_slot(index, 0, result.verify);
      if (options_.max_latency_seconds > 0 && now - slot.begun > nanoseconds(options_.max_latency_seconds)) {
        status = Status(Code::kTimeout, Layer::kApi,
                        "a request took " + cli::human_seconds(static_cast<double>(now - slot.begun) * 1e-9) +
                            ", longer than max_latency");
      }
    }
    if (!status.ok() && failure_.ok()) failure_ = std::move(status);
    free_.push_back(index);
  }
  if (clock_.counting() && now - sample_.began >= kSample) sample_rates(now, result);
  if (!options_.think_after_issue) think(done_ios_ - ios_before, now);
  monitor_->bytes.store(done_bytes_, std::memory_order_relaxed);
  monitor_->ios.store(done_ios_, std::memory_order_relaxed);
}

Status FileJob::check_rates(std::uint64_t now) {
  const auto cycle = nanoseconds(options_.rate_cycle_seconds);
  if (!clock_.counting()) window_ = {now, {0, 0}, {0, 0}};
  if (now - window_.began < cycle || cycle == 0) return {};
  const double seconds = static_cast<double>(now - window_.began) * 1e-9;
  for (unsigned i = 0; i < 2; ++i) {
    if (!(i == 0 ? options_.read : options_.write)) continue;
    const double bytes = static_cast<double>(window_.bytes[i]) / seconds,
                 ios = static_cast<double>(window_.ios[i]) / seconds;
    if (bytes >= static_cast<double>(options_.rate_min[i]) && ios >= static_cast<double>(options_.rate_iops_min[i]))
      continue;
    return {Code::kTimeout, Layer::kApi,
            "the rate fell to " + size_text(static_cast<std::uint64_t>(bytes)) + " and " +
                std::to_string(static_cast<std::uint64_t>(ios)) + " blocks a second, below rate_min or rate_iops_min"};
  }
  window_ = {now, {0, 0}, {0, 0}};
  return {};
}

void FileJob::sample_rates(std::uint64_t now, JobResult& result) {
  const double seconds = static_cast<double>(now - sample_.began) * 1e-9;
  for (unsigned i = 0; i < 2; ++i) {
    DirectionResult& side = i == 0 ? result.read : result.write;
    if (!(i == 0 ? options_.read : options_.write)) continue;
    side.bandwidth.add(static_cast<double>(sample_.bytes[i]) / 1024 / seconds);
    side.iops.add(static_cast<double>(sample_.ios[i]) / seconds);
  }
  sample_ = {now, {0, 0}, {0, 0}};
}

Status FileJob::sync_files(JobResult& result) {
  for (const RegionFile& file : region_.files) {
    const std::uint64_t begun = now_ns();
    HEADRACE_TRY(file.file->sync());
    if (clock_.counting()) result.sync.add(now_ns() - begun);
  }
  writes_since_sync_ = 0;
  return {};
}

void FileJob::run(JobResult& result, JobMonitor& monitor) {
  monitor_ = &monitor;
  result_ = &result;
  if (options_.create_only) return add_notes(result);
  result.passes.resize(kMaxPasses);
  wake_ = now_ns() + nanoseconds(options_.start_delay_seconds);
  while (now_ns() < wake_ && !monitor.stopped()) pause();
  clock_.start();
  last_pass_end_ = window_.began = thought_at_ = now_ns();
  log_.start(last_pass_end_);
  const bool least_rates =
      options_.rate_min[0] + options_.rate_min[1] + options_.rate_iops_min[0] + options_.rate_iops_min[1] > 0;
  FileStats before;
  while (failure_.ok() || in_flight() > 0) {
    if (const std::uint64_t now = now_ns(); clock_.counting_begins(now)) {
      before = queue_->stats();
      sample_.began = now;
    }
    submit_until_full();
    if (in_flight() > 0) {
      take_completions(result);
      if (failure_.code() == Code::kInternal) break;
    } else if (options_.fsync_every > 0 && writes_since_sync_ >= options_.fsync_every && failure_.ok()) {
      failure_ = sync_files(result);
    } else if (wake_ != 0 && failure_.ok() && !monitor.stopped()) {
      pause();
    } else {
      break;
    }
    if (least_rates && failure_.ok()) failure_ = check_rates(now_ns());
  }
  if (failure_.ok() && options_.end_fsync) failure_ = sync_files(result);
  clock_.finish(result);
  log_.finish(now_ns());
  result.stats = difference(queue_->stats(), before);
  std::size_t whole = 0;
  while (whole < kMaxPasses && pass_taken_[whole] != 0 && pass_ios_[whole] == pass_taken_[whole]) ++whole;
  result.passes.resize(whole);
  if (failure_.ok() && options_.write && options_.verifies() && options_.do_verify) {
    written_ ? verify_tracked(result) : verify_written(result);
  }
  add_notes(result);
  result.status = std::move(failure_);
  if (!result.status.ok()) result.status = std::move(result.status).with_key(region_.path);
}

void FileJob::add_notes(JobResult& result) const {
  for (std::size_t at = 0; at < region_.notes.size();) {
    const std::size_t end = std::min(region_.notes.find('\n', at), region_.notes.size());
    result.notes.push_back(region_.notes.substr(at, end - at));
    at = end + 1;
  }
  if (log_.dropped() > 0) {
    result.notes.push_back("logs: " + std::to_string(log_.dropped()) + " lines left out: use log_avg_msec");
  }
  if (options_.create_only) result.notes.emplace_back("create_only: nothing was read or written but to make the files");
  const FileStats& stats = result.stats;
  if (options_.chosen_path() != Path::kDirect || stats.buffered_bytes + stats.written_buffered_bytes == 0) return;
  const bool all = stats.direct_bytes + stats.written_direct_bytes == 0;
  result.notes.push_back(std::string("direct=1: ") + (all ? "" : "partly ") +
                         "through the page cache all the same: O_DIRECT was not available for " +
                         cli::human_bytes(stats.buffered_bytes + stats.written_buffered_bytes));
}

Result<std::unique_ptr<BenchJob>> make_file_job(const JobOptions& options, unsigned thread, const Context& context,
                                                const Device& device) {
  HEADRACE_TRY_ASSIGN(FileRegion region, open_region(options, thread));
  return std::unique_ptr<BenchJob>(new FileJob(options, thread, std::move(region), context, device));
}

}  // namespace headrace::bench
