// headrace verify: reads everything, and lists each chunk that is damaged or could not be checked.
#include <headrace/device.h>
#include <headrace/selection.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <tuple>

#include "cli_common.h"
#include "json_text.h"
#include "progress_bar.h"
#include "verify_pieces.h"

namespace headrace::cli {
namespace {

struct BadChunk {
  std::string array;
  ChunkError error;
};
struct BadArray {
  std::string path;
  Status status;
};

// Stored bytes are damaged if they are wrong or too few. Other failures say nothing about them: missing permission, too
// many open files, an unavailable codec.
bool is_damage(const Status& status) { return status.code() == Code::kCorrupt || status.code() == Code::kShort; }
const char* verdict_of(const Status& status) { return is_damage(status) ? "damaged" : "unchecked"; }

struct Counts {
  std::uint64_t chunks = 0, arrays = 0;
  bool any() const { return chunks > 0 || arrays > 0; }
};

struct Report {
  std::uint64_t arrays = 0;
  Stats stats;
  std::vector<BadChunk> bad_chunks;
  std::vector<BadArray> bad_arrays;

  Counts counts(bool damaged) const {
    Counts out;
    for (const BadChunk& bad : bad_chunks) out.chunks += is_damage(bad.error.status) == damaged ? 1 : 0;
    for (const BadArray& bad : bad_arrays) out.arrays += is_damage(bad.status) == damaged ? 1 : 0;
    return out;
  }
  ExitCode exit_code() const {
    return counts(true).any() ? kExitFailed : counts(false).any() ? kExitUnchecked : kExitOk;
  }
  // REQUIRES: counts(false).any().
  const Status& first_unchecked() const {
    for (const BadChunk& bad : bad_chunks) {
      if (!is_damage(bad.error.status)) return bad.error.status;
    }
    return std::find_if(bad_arrays.begin(), bad_arrays.end(),
                        [](const BadArray& bad) { return !is_damage(bad.status); })
        ->status;
  }
  const char* verdict() const {
    return exit_code() == kExitOk ? "good" : exit_code() == kExitFailed ? "damaged" : "unchecked";
  }
};

// Called for each bad chunk as soon as it is found, so that a long run shows it immediately.
using BadChunkSink = std::function<void(const BadChunk&)>;

// State shared by the arrays of one run.
struct Verifier {
  const Device& device;
  Placement placement;
  std::uint64_t total_bytes;
  Report& report;
  BadChunkSink sink;
  ProgressBar& bar;
  std::uint64_t done_bytes = 0;
  Buffer buffer = {};

  Status verify(const Array& array, const std::string& path);

 private:
  Status read_variable(const Array& array, const std::vector<ArrayBox>& boxes, std::vector<ChunkError>& errors);
  Status read(const Array& array, const VerifyPieces& pieces, const std::vector<ArrayBox>& boxes,
              std::vector<ChunkError>& errors);
};

Status Verifier::read_variable(const Array& array, const std::vector<ArrayBox>& boxes,
                               std::vector<ChunkError>& errors) {
  for (const ArrayBox& box : boxes) {
    VariableReadOptions options;
    options.collect_errors = options.check_only = true;
    HEADRACE_TRY_ASSIGN(const VariableResult checked, array.read_variable(box.selection(), options));
    report.stats += checked.stats;
    errors.insert(errors.end(), checked.errors.begin(), checked.errors.end());
  }
  return {};
}

Status Verifier::read(const Array& array, const VerifyPieces& pieces, const std::vector<ArrayBox>& boxes,
                      std::vector<ChunkError>& errors) {
  if (buffer.size_bytes() < pieces.max_bytes()) {
    buffer = Buffer();
    HEADRACE_TRY_ASSIGN(buffer, Buffer::allocate(device, static_cast<std::size_t>(pieces.max_bytes())));
  }
  std::vector<ReadPart> parts;
  std::uint64_t bytes = 0;
  for (const ArrayBox& box : boxes) {
    parts.push_back({box.selection(), {buffer, array.info().dtype, box.count, {}, static_cast<std::size_t>(bytes)}});
    bytes += pieces.bytes_of(box);
  }
  ReadOptions options;
  options.collect_errors = true;
  options.placement = placement;
  options.verify = Verify::kWhole;  // pieces may end within a chunk
  options.progress = [this, bytes](std::uint64_t done, std::uint64_t total) {
    const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
    bar.update(done_bytes + static_cast<std::uint64_t>(share * static_cast<double>(bytes)), total_bytes);
  };
  auto reading = parts.size() == 1 ? array.read_async(parts[0].selection, parts[0].tensor, device, options)
                                   : array.read_many_async(parts, device, options);
  if (!reading.ok()) return std::move(reading).status();
  Status status = reading->wait();
  report.stats += reading->stats();
  errors = reading->errors();
  if (!status.ok() && errors.empty()) return status;
  done_bytes += bytes;
  bar.update(done_bytes, total_bytes);
  return {};
}

Status Verifier::verify(const Array& array, const std::string& path) {
  const ArrayInfo& info = array.info();
  if (std::find(info.shape.begin(), info.shape.end(), 0) != info.shape.end()) return {};
  const bool variable = info.dtype.is_variable_length();
  VerifyPieces pieces(array);
  if (!variable && pieces.max_bytes() > host_memory_bytes()) {
    return Status(Code::kResourceExhausted, Layer::kApi,
                  "one chunk decodes to " + human_bytes(pieces.max_bytes()) + ", more than this machine's memory");
  }
  const std::uint64_t started_bytes = done_bytes;
  std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>> seen;
  std::vector<ArrayBox> boxes;
  while (pieces.next(boxes)) {
    std::vector<ChunkError> errors;
    HEADRACE_TRY(variable ? read_variable(array, boxes, errors) : read(array, pieces, boxes, errors));
    for (ChunkError& error : errors) {
      if (!seen.insert({error.key, error.offset, error.length}).second) continue;
      report.bad_chunks.push_back({path, std::move(error)});
      sink(report.bad_chunks.back());
    }
  }
  report.stats.missing_chunks += pieces.skipped_chunks();
  done_bytes = std::max(done_bytes, started_bytes + std::min(info.decoded_bytes, UINT64_MAX - started_bytes));
  return {};
}

void print_bad_chunk(const BadChunk& bad) {
  std::string place = "offset " + std::to_string(bad.error.offset);
  place += bad.error.length == 0 ? ", whole object" : ", length " + std::to_string(bad.error.length);
  std::printf("%s chunk  %s  %s  %s\n", verdict_of(bad.error.status), one_line(bad.error.key).c_str(), place.c_str(),
              describe(bad.error.status).c_str());
  std::fflush(stdout);
}

// The chunks or arrays with one verdict.
Json bad_chunks(const Report& report, bool damaged) {
  Json list = Json::array();
  for (const BadChunk& bad : report.bad_chunks) {
    if (is_damage(bad.error.status) != damaged) continue;
    list.push_back({{"array", bad.array},
                    {"key", bad.error.key},
                    {"offset", bad.error.offset},
                    {"length", bad.error.length},
                    {"code", code_name(bad.error.status.code())},
                    {"cause", describe(bad.error.status)}});
  }
  return list;
}

Json bad_arrays(const Report& report, bool damaged) {
  Json list = Json::array();
  for (const BadArray& bad : report.bad_arrays) {
    if (is_damage(bad.status) != damaged) continue;
    list.push_back({{"array", bad.path}, {"code", code_name(bad.status.code())}, {"cause", bad.status.to_string()}});
  }
  return list;
}

Json report_json(const CommonOptions& options, const Report& report, double run_seconds) {
  const Counts damaged = report.counts(true), unchecked = report.counts(false);
  return {{"path", options.path},
          {"verdict", report.verdict()},
          {"ok", report.exit_code() == kExitOk},
          {"arrays", report.arrays},
          {"chunks", report.stats.chunks},
          {"missing_chunks", report.stats.missing_chunks},
          {"bad_chunk_count", damaged.chunks},
          {"bad_array_count", damaged.arrays},
          {"unchecked_chunk_count", unchecked.chunks},
          {"unchecked_array_count", unchecked.arrays},
          {"seconds", report.stats.wall_seconds},
          {"run_seconds", run_seconds},
          {"bad_chunks", bad_chunks(report, true)},
          {"bad_arrays", bad_arrays(report, true)},
          {"unchecked_chunks", bad_chunks(report, false)},
          {"unchecked_arrays", bad_arrays(report, false)},
          {"stats", stats_json(report.stats)}};
}

std::string counted(std::uint64_t count, const char* noun) {
  return human_count(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string counted(const Counts& counts) {
  return counted(counts.chunks, "chunk") + " and " + counted(counts.arrays, "array");
}

// A store that cannot be read is unchecked, not damaged.
int fail_unchecked(const Status& status, std::string_view where, std::string_view advice = {}) {
  fail(status, where, advice);
  return is_damage(status) ? kExitFailed : kExitUnchecked;
}

struct VerifyOptions : CommonOptions {
  std::string device = "host";
  std::string placement = "auto";
};

int run_verify(const VerifyOptions& options) {
  auto device = Device::open(options.device);
  if (!device.ok()) return fail_unchecked(device.status(), "device " + options.device);
  auto context = make_context(options);
  if (!context.ok()) return fail_unchecked(context.status(), "engine " + options.engine, "use --engine auto");
  auto store = Store::open(*context, options.location, options.storage);
  if (!store.ok()) return fail_unchecked(store.status(), options.path);
  auto nodes = list_nodes(*store, "", open_options(options));
  if (!nodes.ok()) return fail_unchecked(nodes.status(), options.path);
  if (nodes->empty()) {
    return fail_unchecked(Status(Code::kNotFound, Layer::kApi, "neither a Zarr array nor a group"), options.path);
  }

  Report report;
  std::uint64_t total_bytes = 0;
  for (const Node& node : *nodes) {
    if (node.array && __builtin_add_overflow(total_bytes, node.array->info().decoded_bytes, &total_bytes)) {
      total_bytes = UINT64_MAX;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar("verify");
  Verifier verifier{.device = *device,
                    .placement = placement_of(options.placement),
                    .total_bytes = total_bytes,
                    .report = report,
                    .sink =
                        [&](const BadChunk& bad) {
                          bar.clear();
                          if (!options.json) print_bad_chunk(bad);
                        },
                    .bar = bar};
  for (const Node& node : *nodes) {
    if (node.is_array) ++report.arrays;
    Status status = node.status;
    if (node.array) note_lenient_uses(node.array->info());
    if (status.ok() && node.array) status = verifier.verify(*node.array, node.path);
    if (status.ok()) continue;
    report.bad_arrays.push_back({node.path, status});
    bar.clear();
    if (!options.json) {
      std::printf("%s array  /%s  %s\n", verdict_of(status), one_line(node.path).c_str(),
                  one_line(status.to_string()).c_str());
    }
  }
  bar.clear();
  const double run_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Counts damaged = report.counts(true), unchecked = report.counts(false);
  std::string verdict = damaged.any() ? counted(damaged) + " damaged" : "";
  if (unchecked.any()) verdict += (damaged.any() ? ", " : "") + counted(unchecked) + " could not be checked";
  if (options.json) {
    print_json(report_json(options, report, run_seconds));
  } else {
    const Stats& stats = report.stats;
    std::printf("%s: %s, %s read, %s missing (filled), %s stored, %s decoded in %s, %s decoded: %s\n",
                one_line(options.path).c_str(), counted(report.arrays, "array").c_str(),
                counted(stats.chunks, "chunk").c_str(), human_count(stats.missing_chunks).c_str(),
                human_bytes(stats.stored_bytes).c_str(), human_bytes(stats.decoded_bytes).c_str(),
                human_seconds(stats.wall_seconds).c_str(), human_rate(stats.decoded_bytes, stats.wall_seconds).c_str(),
                verdict.empty() ? "all good" : verdict.c_str());
  }
  if (verdict.empty()) return kExitOk;
  std::fflush(stdout);
  std::string advice = damaged.any() ? "restore what is damaged from a copy or write it again" : "";
  if (damaged.arrays > 0) advice += "; metadata that other readers accept may pass with --lenient";
  if (unchecked.any()) {
    advice += (damaged.any() ? "; " : "") +
              std::string("what could not be checked may be good: mend the cause (first: ") +
              describe(report.first_unchecked()) + ") and verify again";
  }
  print_error(verdict, options.path, advice);
  return report.exit_code();
}

}  // namespace

Verb add_verify_command(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verb = app.add_subcommand("verify", "read everything and list each chunk that cannot be read exactly");
  add_path_and_json(*verb, *options);
  add_engine_and_threads(*verb, *options);
  add_stored_budget(*verb, *options);
  add_lenient(*verb, *options);
  verb->add_flag("--no-consolidated", options->no_consolidated,
                 "look for arrays in the store itself, not in consolidated metadata");
  verb->add_option("--device", options->device, "read to this device: " + device_help())
      ->check(check_device_name)
      ->type_name("NAME");
  add_placement(*verb, options->placement);
  verb->footer(
      "Examples:\n"
      "  headrace verify era5.zarr\n"
      "  headrace verify era5.zarr/t2m --json > report.json\n\n"
      "Exit codes: 0 all good; 1 stored bytes are damaged; 3 none are, as far as could be checked, but something "
      "could\n"
      "not be (no permission, too many open files, a codec that is not here). Missing chunks are fill value, no "
      "errors.");
  return {verb, [options] { return run_verify(*options); }};
}

}  // namespace headrace::cli
