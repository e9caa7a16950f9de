// Shared by the verbs: exit codes, one-line errors, human-readable units, and common options.
#pragma once

#include <headrace/array.h>
#include <headrace/context.h>
#include <headrace/dtype.h>
#include <headrace/open_options.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text.h"

// Declared here because <CLI/CLI.hpp> takes longer to compile than most sources, and few need it.
namespace CLI {
class App;
}

namespace headrace::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,     // the data or the system failed, or a check did
  kExitUsage = 2,      // invalid command line
  kExitUnchecked = 3,  // verify: something could not be checked, and everything that could is intact
};

struct CommonOptions {
  std::string path;                    // for messages and reports: shown_path()
  std::string location;                // as given, for Store::open() only
  std::vector<StorageOption> storage;  // options of a URL; may contain secrets
  std::string engine = "auto";
  unsigned threads = 0;
  bool json = false;
  std::string lenient;
  bool no_consolidated = false;
  std::string index;              // directory of decode indices
  std::size_t stored_budget = 0;  // 0: the library's default
};

// Also adds the options of URLs (remote_options.h).
void add_path_and_json(CLI::App& verb, CommonOptions& options);
void add_engine_and_threads(CLI::App& verb, CommonOptions& options);
// Adds --stored-budget SIZE, used by make_context().
void add_stored_budget(CLI::App& verb, CommonOptions& options);
// Adds --lenient LIST: spec violations to accept.
void add_lenient(CLI::App& verb, CommonOptions& options);
OpenOptions open_options(const CommonOptions& options);
// Prints a note on stderr for each accepted violation.
void note_lenient_uses(const ArrayInfo& info);
// `headrace info --capabilities`.
int print_capabilities(bool as_json);
// Adds --placement auto|cpu|gpu: which processor decodes, for a device that has decoders.
void add_placement(CLI::App& verb, std::string& placement);
Placement placement_of(std::string_view name);
// "auto" and the names of this build's engines, and of its kinds of devices, in order of preference.
const std::vector<std::string>& engine_choices();
const std::vector<std::string>& device_choices();
std::string device_help();
// The error in a --device argument; empty for the name of a known kind, whether or not such a device exists.
std::string check_device_name(const std::string& name);
// The array at PATH. If there is none, such as for a group, prints an error on stderr.
std::optional<Array> open_array(const Store& store, const CommonOptions& options);

// Runs the whole program and returns its exit code. May be called repeatedly.
int run_command_line(int argc, char** argv);

// A verb. Its options are added to `app` when it is created; the callback runs it if it was chosen.
struct Verb {
  CLI::App* app = nullptr;
  std::function<int()> run;
};
Verb add_doctor_command(CLI::App& app);
Verb add_info_command(CLI::App& app);
Verb add_read_command(CLI::App& app);
Verb add_verify_command(CLI::App& app);
Verb add_bench_command(CLI::App& app);
Verb add_gen_command(CLI::App& app);
Verb add_index_command(CLI::App& app);
Verb add_stats_command(CLI::App& app);
Verb add_cache_command(CLI::App& app);
Verb add_cufile_run_command(CLI::App& app);

// Prints "headrace: <what>; <where>; <what to do>" on stderr, in one line whatever the texts contain.
void print_error(std::string_view what, std::string_view where, std::string_view advice);
// The same from a Status; `where` is combined with the key and range in the Status. Returns kExitFailed.
int fail(const Status& status, std::string_view where, std::string_view advice = {});
// Advice for an output that cannot be written; `option` is the option that names it: "-o".
std::string output_advice(const Status& status, std::string_view option);
// The error without its location: "corrupt: bad checksum (cause)".
std::string describe(const Status& status);

std::string human_bytes(std::uint64_t bytes);                  // "1.50 GB", "12 bytes"
std::string human_count(std::uint64_t count);                  // "1,234,567"
std::string human_seconds(double seconds);                     // "1.23 s", "4.5 ms"
std::string human_rate(std::uint64_t bytes, double seconds);   // the caller says which bytes
std::string shape_text(std::span<const std::uint64_t> shape);  // "[100, 200]"
std::string dtype_text(const DataType& dtype);                 // "float32", "datetime64 [ns]"

// A path or URL that is safe to print: without user name and password, and without its query, which may hold a
// signature.
std::string shown_path(std::string_view path);

// PATH as a local directory; nullopt for a store of another kind.
std::optional<std::string> local_directory(std::string_view path);

// Upper bound of this process's memory: that of the machine, or of its control group if that is less.
std::uint64_t host_memory_bytes();

// Elements times item size; nullopt on overflow of 64 bits.
std::optional<std::uint64_t> decoded_bytes(std::span<const std::uint64_t> shape, std::uint32_t item_bytes);

Result<Context> make_context(const CommonOptions& options);

// All fields of Stats, by name.
nlohmann::ordered_json stats_json(const Stats& stats);
// `decoder`: name of the device if it has decoders; else empty.
std::string stats_table(const Stats& stats, const std::string& decoder);
// The part of decoded_bytes that needed no decoding: stored uncompressed, or filled.
std::uint64_t undecoded_bytes(const Stats& stats);

}  // namespace headrace::cli
