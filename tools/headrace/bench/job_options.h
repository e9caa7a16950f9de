// JobOptions: the options of one job of `headrace bench`, under fio's names where fio has them.
//
// Every effective key is a row of job_keys(), which the command line, job files, help and "job options" in the result
// are derived from. fio's keys without effect here are rows of other_fio_keys().
#pragma once

#include <headrace/array.h>
#include <headrace/file.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block_pattern.h"
#include "block_sizes.h"
#include "distribution.h"
#include "verify_sum.h"

namespace headrace::bench {

enum class CacheState : std::uint8_t {
  kAsIs,
  kCold,
  kHalf,  // every other block
  kWarm,
};

// How the file of the next I/O is chosen.
enum class FileService : std::uint8_t { kRoundRobin, kRandom, kSequential, kDrawn };

struct GivenOption {
  std::string key, value;
  bool global = false;  // from a job file's [global] section
};

// An accepted option, and what it does not do here.
struct OptionNote {
  std::string key, text;
};

// A size in bytes or in percent of a file.
struct SizeOrPercent {
  std::uint64_t bytes = 0;
  unsigned percent = 0;  // 0: use `bytes`
  bool given() const { return bytes > 0 || percent > 0; }
  // The size for a file of `whole` bytes.
  std::uint64_t of(std::uint64_t whole) const {
    return percent == 0 ? bytes : static_cast<std::uint64_t>(static_cast<unsigned __int128>(whole) * percent / 100);
  }
  bool operator==(const SizeOrPercent&) const = default;
};

// Logs of measurements, in fio's format.
struct LogOptions {
  std::optional<std::string> bw, lat, iops;  // prefix of the names; empty: the job's name
  double average_seconds = 0;                // 0: one line per I/O
  bool maximum = false, with_offset = false, unix_epoch = false, per_job = true;
  int epoch_clock = 0;
  bool any() const { return bw || lat || iops; }
};

struct JobOptions {
  std::string name, description;
  // The data: files (filename, directory, opendir, or named after the job), paths, zarr, or decode.
  std::string filename, directory, opendir, filename_format;
  std::string paths;   // a file of file names, one per line, each read whole
  std::string zarr;    // an array to read
  std::string decode;  // an array to decode, without I/O
  std::string select;
  Placement placement = Placement::kAuto;
  // Direction
  bool read = true, write = false, random = false;
  unsigned read_percent = 50;    // share of reads in a mixed job
  unsigned sequential_run = 1;   // consecutive blocks after each random position
  bool run_repeats = false;      // repeat the same block instead of advancing
  std::uint64_t hole_bytes = 0;  // skipped after each sequential block
  // Blocks: for reads and writes, or for sequential and random I/Os
  BlockSizes sizes[2];
  bool sizes_by_order = false;
  bool unaligned = false;
  std::uint64_t align_bytes = 0;  // alignment of random offsets; 0: the smallest block
  // Region
  std::uint64_t size_bytes = 0;  // 0: to the end of the file
  unsigned size_percent = 0;     // of the file; 0: use size_bytes
  SizeOrPercent io_size;
  std::uint64_t number_ios = 0;  // 0: no limit
  SizeOrPercent offset, offset_increment;
  std::uint64_t offset_align_bytes = 0;
  bool file_append = false;
  // Files
  unsigned files = 1;
  std::uint64_t min_file_bytes = 0, max_file_bytes = 0;  // 0: derived from the size
  FileService service = FileService::kRoundRobin;
  unsigned service_ios = 1;
  DistributionKind service_law;  // for kDrawn
  bool overwrite = false, may_create = true, create_fsync = true, unlink = false;
  bool create_only = false;
  // Random order
  bool norandommap = false, repeatable = true;
  std::uint64_t seed = 1;
  DistributionKind distribution;
  unsigned percent_random = 100;
  // I/O method
  Path path = Path::kAuto;
  std::optional<bool> direct;
  std::string engine = "auto", device = "auto";
  bool engine_maps = false, engine_is_null = false;
  unsigned depth = 1, depth_low = 0, batch_submit = 0, batch_complete = 1, batch_complete_max = 0, list = 1;
  unsigned threads = 1;  // numjobs
  std::vector<unsigned> cpus;
  bool split_cpus = false;
  bool no_overlap = false;  // no overlapping blocks in flight
  bool no_io = false, no_copy = false;
  CacheState cache = CacheState::kAsIs;
  std::uint64_t fsync_every = 0;  // after this many writes; 0: never
  bool end_fsync = false;
  // Contents of writes
  BlockPattern buffer_pattern;  // empty: random
  bool zero_buffers = false;
  unsigned compress_percent = 0;
  std::uint64_t compress_chunk_bytes = 512;
  // Rate limits for reads and writes; 0: unlimited
  std::uint64_t rate[2] = {0, 0}, rate_iops[2] = {0, 0}, rate_min[2] = {0, 0}, rate_iops_min[2] = {0, 0};
  double rate_cycle_seconds = 1;
  bool rate_poisson = false;
  double think_seconds = 0, think_spin_seconds = 0, think_io_seconds = 0, max_latency_seconds = 0;
  std::uint64_t think_blocks = 1;
  bool think_after_issue = false;
  // Duration
  std::uint64_t loops = 1;
  double runtime_seconds = 0, ramp_seconds = 0, start_delay_seconds = 0;
  bool time_based = false;
  // Order and reporting
  bool stonewall = false, new_group = false, group_reporting = false, exit_all = false;
  bool stats = true;                                  // false: leave this job out of the results
  bool report_sum = false, report_directions = true;  // for a mixed job
  bool lat_percentiles = true, clat_percentiles = true, slat_percentiles = false;
  std::vector<double> percentiles = {1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99};
  LogOptions log;
  // Verification
  VerifySum verify = VerifySum::kNone;
  bool verify_fatal = false, do_verify = true, verify_only = false;
  BlockPattern verify_pattern;
  std::uint64_t verify_interval_bytes = 0;  // 0: the smallest block

  std::vector<GivenOption> given;  // in order, each key once
  std::vector<OptionNote> notes;

  bool mixed() const { return read && write; }
  bool verifies() const { return verify != VerifySum::kNone; }
  bool skips_io() const { return no_io || engine_is_null; }
  // Whether blocks of sizes[which] occur.
  bool uses_sizes(unsigned which) const;
  std::uint64_t smallest_block() const;  // of the sizes that occur
  std::uint64_t largest_block() const;
  // Whether a pass visits each block exactly once.
  bool each_block_once() const;
  // Whether a table is needed to know which blocks a verifying job has written, and when.
  bool tracks_written() const { return verifies() && write && (mixed() || !each_block_once()); }
  std::uint64_t interval_bytes() const { return verify_interval_bytes == 0 ? smallest_block() : verify_interval_bytes; }
  Path chosen_path() const;
  // Whether filename contains URLs; such jobs read remote objects.
  bool is_remote() const;
  bool works_on_files() const { return paths.empty() && zarr.empty() && decode.empty(); }
};

struct JobKey {
  const char* name;
  const char* alias;       // "" for none
  const char* value_name;  // nullptr: a flag, which needs no value
  const char* group;       // heading in --help
  const char* help;        // "%" stands for the choices, if there are any
  Status (*set)(JobOptions& job, std::string_view value);
  std::string (*choices)() = nullptr;  // available in this build
};
std::span<const JobKey> job_keys();
std::string help_of(const JobKey& key);
// The job key that a key on the command line or in a job file names.
const JobKey* find_job_key(std::string_view name);

// Sets one option. kInvalidArgument: an unknown key (the message suggests a similar one) or an invalid value.
Status set_option(JobOptions& job, std::string_view key, std::string_view value, bool global = false);

// The known word most similar to `word`; empty if none is similar. `extra` adds to the keys of jobs.
std::string nearest_key(std::string_view word, std::span<const char* const> extra = {});

// Checks that the options are compatible; kInvalidArgument names those that are not.
Status check_options(const JobOptions& job);

// For a job whose filename is a URL: checks that all options are supported; kInvalidArgument names those that are not.
Status check_remote_options(const JobOptions& job);

// Adds a note for each option that is valid but has no effect in this job.
void note_idle_options(JobOptions& job);

// The job with defaults filled in that depend on its kind.
JobOptions as_run(JobOptions job);

// Parses the value of "size" and similar keys: "10%" or a size. kInvalidArgument.
Result<SizeOrPercent> parse_size_or_percent(std::string_view value);

}  // namespace headrace::bench
