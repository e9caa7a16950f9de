// FileJob: a job on files. Its FileQueue keeps `iodepth` requests in flight; each is a list of blocks or of whole
// files.
//
// Threads: as BenchJob. The measured loop neither allocates nor locks for a request.
#pragma once

#include <headrace/context.h>
#include <headrace/device.h>
#include <headrace/file.h>

#include <optional>
#include <vector>

#include "bench_job.h"
#include "file_region.h"
#include "io_sequence.h"
#include "measurement_log.h"
#include "rate_limit.h"
#include "verify_block.h"
#include "written_blocks.h"

namespace headrace::bench {

class FileJob : public BenchJob {
 public:
  FileJob(const JobOptions& options, unsigned thread, FileRegion region, Context context, Device device);
  ~FileJob() override;

  Status set_up() override;
  void run(JobResult& result, JobMonitor& monitor) override;
  std::vector<CacheRange> cache_ranges() const override { return region_.cache_ranges(); }
  std::uint64_t expected_bytes() const override;
  Status write_logs(unsigned thread) const override;

 private:
  struct Slot {
    std::uint64_t begun = 0, submitted = 0;  // in nanoseconds
    std::uint64_t bytes = 0, pass = 0;
    std::size_t count = 0;  // number of ranges
    std::size_t file = 0;
    bool write = false;
  };
  // Completions since a point in time.
  struct RateWindow {
    std::uint64_t began = 0, bytes[2] = {0, 0}, ios[2] = {0, 0};
  };

  void fill_buffers();
  const Io* next_io();
  bool limit_reached() const noexcept;
  void fill_slot(std::size_t index, const Io* io);
  Status write_patterns(const Slot& slot, std::size_t index);
  Status submit(std::size_t index);
  void submit_until_full();
  void count_issued(const Slot& slot, std::uint64_t now);
  void think(std::uint64_t blocks, std::uint64_t now);
  void pause();
  void take_completions(JobResult& result);
  void count(const Slot& slot, std::size_t index, std::uint64_t now, JobResult& result);
  void count_pass(const Slot& slot, std::uint64_t now, JobResult& result);
  void end_pass(std::uint64_t now, JobResult& result);
  Status check_rates(std::uint64_t now);
  void sample_rates(std::uint64_t now, JobResult& result);
  Status sync_files(JobResult& result);
  void add_notes(JobResult& result) const;

  Status set_up_verify();
  void remember_started(std::size_t index);
  void remember_written(std::size_t index);
  Status check_slot(std::size_t index, std::uint64_t sequence, VerifyResult& verify);
  void verify_written(JobResult& result);
  void verify_tracked(JobResult& result);
  std::uint64_t sequence_of(const Slot& slot) const { return region_.files[slot.file].first_sequence + slot.pass; }
  Result<const std::byte*> on_host(std::size_t index);
  std::size_t in_flight() const noexcept { return options_.depth - free_.size(); }

  const JobOptions options_;
  FileRegion region_;
  Context context_;
  Device device_;
  IoSequence sequence_;
  JobClock clock_;
  VerifyFormat format_;
  VerifyChecker checker_;
  MeasurementLog log_;
  RateLimit limits_[2];  // reads, writes

  std::optional<FileQueue> queue_;
  Buffer buffer_;
  std::optional<WrittenBlocks> written_;  // for a job that tracks_written()
  std::vector<std::uint64_t>
      expected_;  // for such a job, slot_blocks_ per slot: the sequence of each block when its read started; 0: unknown
  std::size_t slot_blocks_ = 0;
  std::vector<std::byte> host_;  // one slot's bytes, for filling patterns and for checks
  std::size_t slot_bytes_ = 0;
  std::vector<Slot> slots_;
  std::vector<FileRange> ranges_;  // options_.list per slot
  std::vector<PathRange> paths_;   // the same for lists of whole files
  std::vector<std::size_t> free_;
  std::vector<FileCompletion> completions_;

  JobMonitor* monitor_ = nullptr;
  JobResult* result_ = nullptr;  // result of the current run
  Status failure_;
  std::uint64_t pass_ = 0, taken_ = 0;  // taken_: I/Os of this pass
  std::uint64_t issued_bytes_ = 0, issued_ios_ = 0, done_bytes_ = 0, done_ios_ = 0;
  std::uint64_t wake_ = 0;  // when the next I/O may start; 0: not limited
  std::uint64_t think_until_ = 0, think_count_ = 0, thought_at_ = 0;
  bool draining_ = false;  // until iodepth_low is reached
  std::uint64_t writes_since_sync_ = 0;
  RateWindow window_, sample_;             // for rate_min, and for the samples in the result
  std::vector<std::uint64_t> pass_taken_;  // I/Os taken in each of the first passes, once ended
  std::vector<std::uint64_t> pass_ios_;    // I/Os completed in each
  std::uint64_t last_pass_end_ = 0;
};

}  // namespace headrace::bench
