// What the library is told: cufile.json, the environment, and what a program sets before it opens the driver.
//
// Later sources win: defaults, file, environment, the program's own calls. Values of the last are taken as they are
// given and looked at when the driver opens; one that is out of range is then replaced by the default and logged.
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

inline constexpr std::size_t kSizes = 12, kBools = 12, kStrings = 3;  // as many as there are parameters of a kind

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
  bool names_log_file = false;  // by the environment, or as a parameter; it may be ""
  SlabArray posix_slabs, gpu_slabs;
  // Ours
  Path path = Path::kAuto;       // HEADRACE_CUFILE_PATH, headrace.path; force_odirect_mode is "direct"
  unsigned threads = 0;          // HEADRACE_CUFILE_THREADS, headrace.threads; 0: one a CPU
  std::size_t staging_mib = 16;  // HEADRACE_CUFILE_STAGING_MIB, headrace.staging_mib: pinned memory of each queue
  std::string engine = "auto";   // HEADRACE_CUFILE_ENGINE, headrace.engine
  std::string ignored_file;      // why the configuration file was not used; empty: it was, or is not there
  Config();
};

// What a program has set and the driver has not yet been opened with.
struct StagedConfig {
  std::array<std::optional<std::size_t>, kSizes> sizes;
  std::array<std::optional<bool>, kBools> bools;
  std::array<std::optional<std::string>, kStrings> strings;
  std::optional<SlabArray> posix_slabs;
};

// Adds what `text` says to `config`: JSON with // and /* */ comments. Unknown keys and values of another type are
// ignored. kCorrupt with line and column: not JSON. kResourceExhausted: longer than a configuration can be.
Status parse_config(std::string_view text, Config& config);

// The file that CUFILE_ENV_PATH_JSON names, or /etc/cufile.json; then the environment. A file that is not there, may
// not be read or that others can write to is no failure; Config::ignored_file tells of the latter.
Status load_config(Config& config);

void apply(const StagedConfig& staged, Config& config);
// Replaces what is out of range by its default; says what, one line each.
std::vector<std::string> check_ranges(Config& config);

// "true", "1", "on", "yes" and their opposites, in any case.
std::optional<bool> parse_bool(std::string_view text) noexcept;

}  // namespace headrace::cufile
