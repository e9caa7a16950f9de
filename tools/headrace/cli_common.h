// What the verbs share: exit codes, one-line errors, units for people, and the options every verb takes.
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

// <CLI/CLI.hpp> takes longer to compile than most sources here, and few need it.
namespace CLI {
class App;
}

namespace headrace::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,     // the data, the check or the system said no
  kExitUsage = 2,      // the command line cannot be understood
  kExitUnchecked = 3,  // verify: something could not be checked, and nothing that could is damaged
};

struct CommonOptions {
  std::string path;                    // as messages and reports name it: shown_path()
  std::string location;                // as it was given, for Store::open() alone
  std::vector<StorageOption> storage;  // of a URL; may be secrets
  std::string engine = "auto";
  unsigned threads = 0;
  bool json = false;
  std::string lenient;
  bool no_consolidated = false;
  std::string index;              // directory of decode indices
  std::size_t stored_budget = 0;  // 0: the library's default
};

// And the options of URLs (remote_options.h).
void add_path_and_json(CLI::App& verb, CommonOptions& options);
void add_engine_and_threads(CLI::App& verb, CommonOptions& options);
// --stored-budget SIZE: for make_context().
void add_stored_budget(CLI::App& verb, CommonOptions& options);
// --lenient LIST: what may be let pass beyond the specifications.
void add_lenient(CLI::App& verb, CommonOptions& options);
OpenOptions open_options(const CommonOptions& options);
// One note on stderr for each thing that was let pass.
void note_lenient_uses(const ArrayInfo& info);
// `headrace info --capabilities`.
int print_capabilities(bool as_json);
// --placement auto|cpu|gpu: who decodes what is read to a device with decoders of its own.
void add_placement(CLI::App& verb, std::string& placement);
Placement placement_of(std::string_view name);
// "auto" and the names of this build's engines, and of its kinds of devices, preferred first.
const std::vector<std::string>& engine_choices();
const std::vector<std::string>& device_choices();
std::string device_help();
// What is wrong with a --device argument; empty for the name of a kind we know, whether or not it is there.
std::string check_device_name(const std::string& name);
// The array at PATH. Where there is none, a group for instance, it says so on stderr.
std::optional<Array> open_array(const Store& store, const CommonOptions& options);

// All of the program; returns its exit code. One call after another is fine.
int run_command_line(int argc, char** argv);

// A verb: its options are added to `app` now; the returned callback, when the verb was chosen, runs it.
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

// "headrace: <what>; <where>; <what to do>" on stderr: one line, whatever the texts hold.
void print_error(std::string_view what, std::string_view where, std::string_view advice);
// The same from a Status; `where` is used together with the key and range the Status knows. Gives kExitFailed.
int fail(const Status& status, std::string_view where, std::string_view advice = {});
// What to do about an output that cannot be written; `option` says where it goes: "-o".
std::string output_advice(const Status& status, std::string_view option);
// What went wrong without where: "corrupt: bad checksum (cause)".
std::string describe(const Status& status);

std::string human_bytes(std::uint64_t bytes);                  // "1.50 GB", "12 bytes"
std::string human_count(std::uint64_t count);                  // "1,234,567"
std::string human_seconds(double seconds);                     // "1.23 s", "4.5 ms"
std::string human_rate(std::uint64_t bytes, double seconds);   // "1.23 GB/s"; the caller says of what
std::string shape_text(std::span<const std::uint64_t> shape);  // "[100, 200]"
std::string dtype_text(const DataType& dtype);                 // "float32", "datetime64 [ns]"

// A path or URL as it may be printed: without names and passwords, and without a query, which may be a signature.
std::string shown_path(std::string_view path);

// PATH as a directory here, or nothing for a store that is not a local one.
std::optional<std::string> local_directory(std::string_view path);

// Bytes of memory this process could use at the very most: the machine's, or its control group's if smaller.
std::uint64_t host_memory_bytes();

// Elements times item size; nothing where it does not fit 64 bits.
std::optional<std::uint64_t> decoded_bytes(std::span<const std::uint64_t> shape, std::uint32_t item_bytes);

Result<Context> make_context(const CommonOptions& options);

// Every field of Stats, by its name there.
nlohmann::ordered_json stats_json(const Stats& stats);
// `decoder`: what the device is called that has decoders of its own; empty: there is none.
std::string stats_table(const Stats& stats, const std::string& decoder);
// Of decoded_bytes, those that nobody had to decode: stored as they are, or filled.
std::uint64_t undecoded_bytes(const Stats& stats);

}  // namespace headrace::cli
