// JobOptions: what one job of `headrace bench` does, with fio's names where fio has one.
//
// Every key that does something is one row of job_keys(): command line, job files, help and the result's "job options"
// come from it. Keys of fio's that do nothing here are rows of other_fio_keys().
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

// Which of a job's files has the next I/O.
enum class FileService : std::uint8_t { kRoundRobin, kRandom, kSequential, kDrawn };

struct GivenOption {
  std::string key, value;
  bool global = false;  // from a job file's [global] section
};

// What an option that was accepted does not do here.
struct OptionNote {
  std::string key, text;
};

// A size that may be a share of the file.
struct SizeOrPercent {
  std::uint64_t bytes = 0;
  unsigned percent = 0;  // 0: `bytes` counts
  bool given() const { return bytes > 0 || percent > 0; }
  // Of `whole` bytes.
  std::uint64_t of(std::uint64_t whole) const {
    return percent == 0 ? bytes : static_cast<std::uint64_t>(static_cast<unsigned __int128>(whole) * percent / 100);
  }
  bool operator==(const SizeOrPercent&) const = default;
};

// Files of measurements, in fio's form.
struct LogOptions {
  std::optional<std::string> bw, lat, iops;  // the first part of the names; empty: the job's name
  double average_seconds = 0;                // 0: one line for each I/O
  bool maximum = false, with_offset = false, unix_epoch = false, per_job = true;
  int epoch_clock = 0;
  bool any() const { return bw || lat || iops; }
};

struct JobOptions {
  std::string name, description;
  // What is read, written or decoded: files (filename, directory, opendir, or named after the job), paths, zarr,
  // decode.
  std::string filename, directory, opendir, filename_format;
  std::string paths;   // a file that names files, one a line, each read whole
  std::string zarr;    // an array that is read
  std::string decode;  // an array that is decoded, without I/O
  std::string select;
  Placement placement = Placement::kAuto;
  // Direction
  bool read = true, write = false, random = false;
  unsigned read_percent = 50;    // of the I/Os of a mixed job
  unsigned sequential_run = 1;   // blocks in a row after each random one
  bool run_repeats = false;      // the same block, not those behind it
  std::uint64_t hole_bytes = 0;  // left out after each sequential block
  // Blocks: of reads and of writes, or of those in sequence and those at random
  BlockSizes sizes[2];
  bool sizes_by_order = false;
  bool unaligned = false;
  std::uint64_t align_bytes = 0;  // of random offsets; 0: the smallest block
  // Region
  std::uint64_t size_bytes = 0;  // 0: to the end of the file
  unsigned size_percent = 0;     // of the file; 0: size_bytes counts
  SizeOrPercent io_size;
  std::uint64_t number_ios = 0;  // 0: no limit
  SizeOrPercent offset, offset_increment;
  std::uint64_t offset_align_bytes = 0;
  bool file_append = false;
  // Files
  unsigned files = 1;
  std::uint64_t least_file_bytes = 0, most_file_bytes = 0;  // 0: by size
  FileService service = FileService::kRoundRobin;
  unsigned service_ios = 1;
  DistributionKind service_law;  // of kDrawn
  bool overwrite = false, may_create = true, create_fsync = true, unlink = false;
  bool create_only = false;
  // Random order
  bool norandommap = false, repeatable = true;
  std::uint64_t seed = 1;
  DistributionKind distribution;
  unsigned percent_random = 100;
  // How
  Path path = Path::kAuto;
  std::optional<bool> direct;
  std::string engine = "auto", device = "auto";
  bool engine_maps = false, engine_is_null = false;
  unsigned depth = 1, depth_low = 0, batch_submit = 0, batch_complete = 1, batch_complete_max = 0, list = 1;
  unsigned threads = 1;  // numjobs
  std::vector<unsigned> cpus;
  bool split_cpus = false;
  bool no_overlap = false;  // of blocks in flight
  bool no_io = false, no_copy = false;
  CacheState cache = CacheState::kAsIs;
  std::uint64_t fsync_every = 0;  // writes; 0: never
  bool end_fsync = false;
  // Contents of what is written
  BlockPattern buffer_pattern;  // empty: random
  bool zero_buffers = false;
  unsigned compress_percent = 0;
  std::uint64_t compress_chunk_bytes = 512;
  // How fast: of reads and of writes; 0: as fast as it goes
  std::uint64_t rate[2] = {0, 0}, rate_iops[2] = {0, 0}, rate_min[2] = {0, 0}, rate_iops_min[2] = {0, 0};
  double rate_cycle_seconds = 1;
  bool rate_poisson = false;
  double think_seconds = 0, think_spin_seconds = 0, think_io_seconds = 0, max_latency_seconds = 0;
  std::uint64_t think_blocks = 1;
  bool think_after_issue = false;
  // How long
  std::uint64_t loops = 1;
  double runtime_seconds = 0, ramp_seconds = 0, start_delay_seconds = 0;
  bool time_based = false;
  // Order and reporting
  bool stonewall = false, new_group = false, group_reporting = false, exit_all = false;
  bool stats = true;                                  // 0: the result has nothing of this job
  bool report_sum = false, report_directions = true;  // of a mixed job
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
  std::uint64_t smallest_block() const;  // of those that occur
  std::uint64_t largest_block() const;
  // Whether a pass visits each block exactly once.
  bool each_block_once() const;
  // Whether only a table can tell which blocks a job that verifies has written, and when.
  bool tracks_written() const { return verifies() && write && (mixed() || !each_block_once()); }
  std::uint64_t interval_bytes() const { return verify_interval_bytes == 0 ? smallest_block() : verify_interval_bytes; }
  Path chosen_path() const;
  // Whether filename is one URL or several; such jobs read their objects.
  bool is_remote() const;
  bool works_on_files() const { return paths.empty() && zarr.empty() && decode.empty(); }
};

struct JobKey {
  const char* name;
  const char* alias;       // "" for none
  const char* value_name;  // nullptr: a flag, which may stand without a value
  const char* group;       // heading in --help
  const char* help;        // with choices, '%' stands for them
  Status (*set)(JobOptions& job, std::string_view value);
  std::string (*choices)() = nullptr;  // what this build has
};
std::span<const JobKey> job_keys();
std::string help_of(const JobKey& key);
// How a value of a job's key on the command line or in a job file is understood.
const JobKey* find_job_key(std::string_view name);

// Sets one option. kInvalidArgument: an unknown key, with the one that may have been meant, or a value it cannot take.
Status set_option(JobOptions& job, std::string_view key, std::string_view value, bool global = false);

// The known word nearest to `word`, empty where none is near. `extra` adds to the keys of jobs.
std::string nearest_key(std::string_view word, std::span<const char* const> extra = {});

// Whether the options fit each other; kInvalidArgument names those that do not.
Status check_options(const JobOptions& job);

// Of a job whose filename is a URL: whether it can do all that is asked; kInvalidArgument names what it cannot.
Status check_remote_options(const JobOptions& job);

// Options that are right in themselves and do nothing in this job, each a note.
void note_idle_options(JobOptions& job);

// The job as it is done: what only some jobs have is settled.
JobOptions as_run(JobOptions job);

// What the value of "size" and its like says, "10%" or a size. kInvalidArgument.
Result<SizeOrPercent> parse_size_or_percent(std::string_view value);

}  // namespace headrace::bench
