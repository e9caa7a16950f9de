// The library's configuration: cufile.json, the environment, and what a program sets before it opens the driver.
//
// Later sources win: defaults, file, environment, the program's own calls. Values from calls are stored as given and
// checked when the driver opens; one that is out of range is then replaced by its default, and that is logged.
#pragma once

#include <headrace/file.h>
#include <headrace/status.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::cufile {

inline constexpr std::size_t kSizes = 12, kBools = 12, kStrings = 3;  // number of parameters of each kind

struct SizeParameter {
  const char* section;
  const char* key;
  std::size_t fallback, least, most;  // least > most: no range is published
};
extern const std::array<SizeParameter, kSizes> kSizeParameters;

struct SlabArray {
  std::vector<std::size_t> sizes_kb, counts;
};

struct Config {
  std::array<std::size_t, kSizes> sizes;
  std::array<bool, kBools> bools;
  std::array<std::string, kStrings> strings;
  bool names_log_file = false;  // set by the environment or as a parameter; may be ""
  SlabArray posix_slabs, gpu_slabs;
  // headrace's own settings
  Path path = Path::kAuto;       // HEADRACE_CUFILE_PATH, headrace.path; force_odirect_mode is "direct"
  unsigned threads = 0;          // HEADRACE_CUFILE_THREADS, headrace.threads; 0: one per CPU
  std::size_t staging_mib = 16;  // HEADRACE_CUFILE_STAGING_MIB, headrace.staging_mib: pinned memory of each queue
  std::string engine = "auto";   // HEADRACE_CUFILE_ENGINE, headrace.engine
  std::string ignored_file;      // why the configuration file was not used; empty: it was used, or does not exist
  Config();
};

// Values that a program has set and that the next opening of the driver will use.
struct StagedConfig {
  std::array<std::optional<std::size_t>, kSizes> sizes;
  std::array<std::optional<bool>, kBools> bools;
  std::array<std::optional<std::string>, kStrings> strings;
  std::optional<SlabArray> posix_slabs;
};

// Applies the configuration `text` to `config`: JSON with // and /* */ comments. Unknown keys and values of another
// type are ignored. kCorrupt with line and column: not JSON. kResourceExhausted: longer than the limit.
Status parse_config(std::string_view text, Config& config);

// Reads the file that CUFILE_ENV_PATH_JSON names, or /etc/cufile.json; then the environment. A file that does not
// exist, cannot be read or is writable by others is not an error; Config::ignored_file reports the last case.
Status load_config(Config& config);

void apply(const StagedConfig& staged, Config& config);
// Replaces values that are out of range by their defaults; returns one line about each.
std::vector<std::string> check_ranges(Config& config);

// "true", "1", "on", "yes" and their opposites, in any case.
std::optional<bool> parse_bool(std::string_view text) noexcept;

}  // namespace headrace::cufile
