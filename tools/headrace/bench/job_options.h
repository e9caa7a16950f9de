// JobOptions: what one job of `headrace bench` does, with fio's names where fio has one.
//
// Every key is one row of job_keys(): command line, job files, help and the result's "job options" come from it.
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

namespace headrace::bench {

enum class CacheState : std::uint8_t {
  kAsIs,
  kCold,
  kHalf,  // every other block
  kWarm,
};

struct GivenOption {
  std::string key, value;
  bool global = false;  // from a job file's [global] section
};

struct JobOptions {
  std::string name;
  // What is read, written or decoded: exactly one of filename (or directory), paths, zarr, decode.
  std::string filename, directory;
  std::string paths;   // a file that names files, one a line, each read whole
  std::string zarr;    // an array that is read
  std::string decode;  // an array that is decoded, without I/O
  std::string select;
  Placement placement = Placement::kAuto;
  // Direction and region
  bool write = false, random = false;
  std::uint64_t block_bytes = 4096;
  std::uint64_t size_bytes = 0;  // 0: to the end of the file
  unsigned size_percent = 0;     // of the file; 0: size_bytes counts
  std::uint64_t offset_bytes = 0, offset_increment_bytes = 0;
  bool norandommap = false;
  std::uint64_t seed = 1;
  // How
  Path path = Path::kAuto;
  std::optional<bool> direct;
  std::string engine = "auto", device = "auto";
  unsigned depth = 1, batch_submit = 0, batch_complete = 1, list = 1;
  unsigned threads = 1;  // numjobs
  bool no_io = false, no_copy = false;
  CacheState cache = CacheState::kAsIs;
  std::uint64_t fsync_every = 0;  // writes; 0: never
  bool end_fsync = false;
  // How long
  std::uint64_t loops = 1;
  double runtime_seconds = 0, ramp_seconds = 0;
  bool time_based = false;
  // Order and reporting
  bool stonewall = false, new_group = false, group_reporting = false;
  std::vector<double> percentiles = {1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99};
  // Verification
  bool verify = false, verify_fatal = false, do_verify = true;
  std::uint64_t verify_interval_bytes = 0;  // 0: block_bytes

  std::vector<GivenOption> given;  // in order, each key once

  std::uint64_t interval_bytes() const { return verify_interval_bytes == 0 ? block_bytes : verify_interval_bytes; }
  Path chosen_path() const { return direct.value_or(false) ? Path::kDirect : path; }
};

struct JobKey {
  const char* name;
  const char* alias;       // "" for none
  const char* value_name;  // nullptr: a flag, which may stand without a value
  const char* group;       // heading in --help
  const char* help;
  Status (*set)(JobOptions& job, std::string_view value);
};
std::span<const JobKey> job_keys();

// Sets one option. kInvalidArgument: an unknown key, with the one that may have been meant, or a value it cannot take.
Status set_option(JobOptions& job, std::string_view key, std::string_view value, bool global = false);

// The known word nearest to `word`, empty where none is near. `extra` adds to the keys of jobs.
std::string nearest_key(std::string_view word, std::span<const char* const> extra = {});

// Whether the options fit each other; kInvalidArgument names those that do not.
Status check_options(const JobOptions& job);

}  // namespace headrace::bench
