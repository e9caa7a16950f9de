// headrace verify: reads everything and lists each chunk that cannot be read exactly.
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
#include "progress_bar.h"

namespace headrace::cli {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 20;  // decoded, at a time

std::uint64_t saturating_product(std::span<const std::uint64_t> factors, std::uint64_t bytes) {
  return decoded_bytes(factors, static_cast<std::uint32_t>(bytes)).value_or(UINT64_MAX);
}

// Shape of the pieces an array is read in: whole cells (shards, or chunks where a shard is too large), whole rows of
// the grid as long as they fit.
std::vector<std::uint64_t> piece_shape(const ArrayInfo& info) {
  const std::uint32_t item = info.dtype.item_bytes;
  std::vector<std::uint64_t> cell = info.shard_shape.empty() ? info.chunk_shape : info.shard_shape;
  if (saturating_product(cell, item) > kPieceBytes) cell = info.chunk_shape;
  std::vector<std::uint64_t> piece = info.shape;
  for (std::size_t d = 0; d < piece.size() && saturating_product(piece, item) > kPieceBytes; ++d) {
    std::vector<std::uint64_t> row = piece;
    row[d] = std::min(cell[d], info.shape[d]);
    const std::uint64_t row_bytes = std::max<std::uint64_t>(1, saturating_product(row, item));
    const std::uint64_t rows = std::max<std::uint64_t>(1, kPieceBytes / row_bytes);
    std::uint64_t extent = 0;
    piece[d] = __builtin_mul_overflow(rows, cell[d], &extent) ? info.shape[d] : std::min(info.shape[d], extent);
  }
  return piece;
}

// Moves `start` to the next piece in C order; false after the last.
bool next_piece(std::vector<std::uint64_t>& start, const std::vector<std::uint64_t>& piece,
                const std::vector<std::uint64_t>& shape) {
  for (std::size_t d = start.size(); d-- > 0;) {
    if (shape[d] - start[d] > piece[d]) {
      start[d] += piece[d];
      return true;
    }
    start[d] = 0;
  }
  return false;
}

struct BadChunk {
  std::string array;
  ChunkError error;
};
struct BadArray {
  std::string path;
  Status status;
};

struct Report {
  std::uint64_t arrays = 0;
  Stats stats;
  std::vector<BadChunk> bad_chunks;
  std::vector<BadArray> bad_arrays;
};

// Called for each bad chunk as it is found, so that a long run shows them at once.
using BadChunkSink = std::function<void(const BadChunk&)>;

Status verify_array(const Array& array, const std::string& path, const Device& device, Placement placement,
                    Buffer& buffer, ProgressBar& bar, std::uint64_t& done_bytes, std::uint64_t total_bytes,
                    Report& report, const BadChunkSink& sink) {
  const ArrayInfo& info = array.info();
  if (std::find(info.shape.begin(), info.shape.end(), 0) != info.shape.end()) return {};
  if (info.dtype.is_variable_length()) {
    VariableReadOptions options;
    options.collect_errors = options.check_only = true;
    HEADRACE_TRY_ASSIGN(const VariableResult checked, array.read_variable({}, options));
    report.stats += checked.stats;
    for (const ChunkError& error : checked.errors) {
      report.bad_chunks.push_back({path, error});
      sink(report.bad_chunks.back());
    }
    return {};
  }
  const std::vector<std::uint64_t> piece = piece_shape(info);
  const std::uint64_t piece_bytes = saturating_product(piece, info.dtype.item_bytes);
  if (piece_bytes > host_memory_bytes()) {
    return Status(Code::kResourceExhausted, Layer::kApi,
                  "one chunk decodes to " + human_bytes(piece_bytes) + ", more than this machine's memory");
  }
  if (buffer.size_bytes() < piece_bytes) {
    buffer = Buffer();
    HEADRACE_TRY_ASSIGN(buffer, Buffer::allocate(device, static_cast<std::size_t>(piece_bytes)));
  }
  std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>> seen;
  std::vector<std::uint64_t> start(info.shape.size(), 0);
  do {
    Selection selection;
    TensorView tensor;
    tensor.data = buffer.data();
    for (std::size_t d = 0; d < start.size(); ++d) {
      const std::uint64_t count = std::min(piece[d], info.shape[d] - start[d]);
      SelectionItem item;
      item.start = static_cast<std::int64_t>(start[d]);
      item.stop = static_cast<std::int64_t>(start[d] + count);
      selection.push_back(item);
      tensor.shape.push_back(count);
    }
    const std::uint64_t bytes = saturating_product(tensor.shape, info.dtype.item_bytes);
    ReadOptions options;
    options.collect_errors = true;
    options.placement = placement;
    const std::uint64_t before = done_bytes;
    options.progress = [&bar, before, bytes, total_bytes](std::uint64_t done, std::uint64_t total) {
      const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
      bar.update(before + static_cast<std::uint64_t>(share * static_cast<double>(bytes)), total_bytes);
    };
    HEADRACE_TRY_ASSIGN(Completion reading, array.read_async(selection, tensor, device, options));
    const Status status = reading.wait();
    report.stats += reading.stats();
    for (const ChunkError& error : reading.errors()) {
      if (!seen.insert({error.key, error.offset, error.length}).second) continue;
      report.bad_chunks.push_back({path, error});
      sink(report.bad_chunks.back());
    }
    if (!status.ok() && reading.errors().empty()) return status;
    done_bytes += bytes;
    bar.update(done_bytes, total_bytes);
  } while (next_piece(start, piece, info.shape));
  return {};
}

void print_bad_chunk(const BadChunk& bad) {
  std::string place = "offset " + std::to_string(bad.error.offset);
  place += bad.error.length == 0 ? ", whole object" : ", length " + std::to_string(bad.error.length);
  std::printf("bad chunk  %s  %s  %s\n", one_line(bad.error.key).c_str(), place.c_str(),
              describe(bad.error.status).c_str());
  std::fflush(stdout);
}

void write_report(const CommonOptions& options, const Report& report, double seconds) {
  JsonWriter json;
  json.begin_object()
      .member("path", options.path)
      .member("ok", report.bad_chunks.empty() && report.bad_arrays.empty())
      .member("arrays", report.arrays)
      .member("chunks", report.stats.chunks)
      .member("missing_chunks", report.stats.missing_chunks)
      .member("bad_chunk_count", static_cast<std::uint64_t>(report.bad_chunks.size()))
      .member("unreadable_array_count", static_cast<std::uint64_t>(report.bad_arrays.size()))
      .member("seconds", seconds)
      .key("bad_chunks")
      .begin_array();
  for (const BadChunk& bad : report.bad_chunks) {
    json.begin_object()
        .member("array", bad.array)
        .member("key", bad.error.key)
        .member("offset", bad.error.offset)
        .member("length", bad.error.length)
        .member("code", code_name(bad.error.status.code()))
        .member("cause", describe(bad.error.status))
        .end_object();
  }
  json.end_array().key("unreadable_arrays").begin_array();
  for (const BadArray& bad : report.bad_arrays) {
    json.begin_object()
        .member("array", bad.path)
        .member("code", code_name(bad.status.code()))
        .member("cause", bad.status.to_string())
        .end_object();
  }
  json.end_array().key("stats");
  write_stats(json, report.stats);
  json.end_object();
  std::fputs(json.text().c_str(), stdout);
}

std::string counted(std::uint64_t count, const char* noun) {
  return human_count(count) + " " + noun + (count == 1 ? "" : "s");
}

struct VerifyOptions : CommonOptions {
  std::string device = "host";
  std::string placement = "auto";
};

int run_verify(const VerifyOptions& options) {
  auto device = Device::open(options.device);
  if (!device.ok()) return fail(device.status(), "device " + options.device);
  auto context = make_context(options);
  if (!context.ok()) return fail(context.status(), "engine " + options.engine, "use --engine auto");
  auto store = Store::open(*context, options.path);
  if (!store.ok()) return fail(store.status(), options.path);
  auto nodes = list_nodes(*store, "", open_options(options));
  if (!nodes.ok()) return fail(nodes.status(), options.path);
  if (nodes->empty()) {
    return fail(Status(Code::kNotFound, Layer::kApi, "neither a Zarr array nor a group"), options.path);
  }

  Report report;
  std::uint64_t total_bytes = 0, done_bytes = 0;
  for (const Node& node : *nodes) {
    if (node.array && __builtin_add_overflow(total_bytes, node.array->info().decoded_bytes, &total_bytes)) {
      total_bytes = UINT64_MAX;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar("verify");
  Buffer buffer;
  for (const Node& node : *nodes) {
    if (node.is_array) ++report.arrays;
    Status status = node.status;
    if (node.array) note_lenient_uses(node.array->info());
    if (status.ok() && node.array) {
      status = verify_array(*node.array, node.path, *device, placement_of(options.placement), buffer, bar, done_bytes,
                            total_bytes, report, [&](const BadChunk& bad) {
                              bar.clear();
                              if (!options.json) print_bad_chunk(bad);
                            });
    }
    if (status.ok()) continue;
    report.bad_arrays.push_back({node.path, status});
    bar.clear();
    if (!options.json) {
      std::printf("unreadable  /%s  %s\n", one_line(node.path).c_str(), one_line(status.to_string()).c_str());
    }
  }
  bar.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool ok = report.bad_chunks.empty() && report.bad_arrays.empty();
  if (options.json) {
    write_report(options, report, seconds);
  } else {
    const Stats& stats = report.stats;
    std::printf("%s: %s, %s read, %s missing (filled), %s stored, %s decoded in %s, %s decoded: %s\n",
                one_line(options.path).c_str(), counted(report.arrays, "array").c_str(),
                counted(stats.chunks, "chunk").c_str(), human_count(stats.missing_chunks).c_str(),
                human_bytes(stats.stored_bytes).c_str(), human_bytes(stats.decoded_bytes).c_str(),
                human_seconds(seconds).c_str(), human_rate(stats.decoded_bytes, seconds).c_str(),
                ok ? "all good"
                   : (counted(report.bad_chunks.size(), "bad chunk") + ", " +
                      counted(report.bad_arrays.size(), "unreadable array"))
                         .c_str());
  }
  if (ok) return kExitOk;
  std::fflush(stdout);
  print_error(
      counted(report.bad_chunks.size(), "bad chunk") + " and " + counted(report.bad_arrays.size(), "unreadable array"),
      options.path, "restore these objects from a copy or write them again");
  return kExitFailed;
}

}  // namespace

Verb add_verify_command(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verb = app.add_subcommand("verify", "read everything and list each chunk that cannot be read exactly");
  add_path_and_json(*verb, *options);
  add_engine_and_threads(*verb, *options);
  add_lenient(*verb, *options);
  verb->add_flag("--no-consolidated", options->no_consolidated,
                 "look for arrays in the store itself, not in consolidated metadata");
  verb->add_option("--device", options->device, "read to this device: auto, host, cuda or cuda:N")
      ->check(check_device_name)
      ->type_name("NAME");
  add_placement(*verb, options->placement);
  verb->footer(
      "Examples:\n"
      "  headrace verify era5.zarr\n"
      "  headrace verify era5.zarr/t2m --json > report.json\n\n"
      "Exit code 1 when a chunk is bad or an array cannot be opened. Missing chunks are fill value, not errors.");
  return {verb, [options] { return run_verify(*options); }};
}

}  // namespace headrace::cli
