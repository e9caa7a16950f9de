// headrace read: reads an array, or part of one, into device memory, and from there to a file or a hash.
#include <headrace/device.h>
#include <headrace/selection.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string_view>

#include "cli_common.h"
#include "json_text.h"
#include "npy_writer.h"
#include "output_file.h"
#include "progress_bar.h"
#include "read_delivery.h"
#include "read_slabs.h"
#include "read_variable.h"
#include "report/run_report.h"
#include "sha256.h"

namespace headrace::cli {
namespace {

struct ReadCommandOptions : CommonOptions {
  std::string select, points, blocks;
  std::string device = "auto";
  std::string output;
  std::string dtype;
  double scale = 1, offset = 0;
  bool fill_as_nan = false, damage_as_nan = false;
  ReportOptions report;
  std::string placement = "auto";
  bool whole = false;
  std::uint64_t slab_bytes = std::uint64_t{256} << 20;
  bool raw = false, npy = false, sha256 = false, stats = false;
};

constexpr std::size_t kMaxPointAxes = 64;

// Reads points from a file: one per line, with a coordinate per dimension separated by commas or blanks; '#' starts a
// comment.
Result<Selection> read_points(const std::string& path) {
  const auto wrong = [](std::string message) {
    return Status(Code::kInvalidArgument, Layer::kApi, std::move(message));
  };
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, Layer::kApi, "cannot open the file of points");
  std::vector<std::vector<std::int64_t>> coordinates;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    std::string_view rest = std::string_view(line).substr(0, line.find('#'));
    std::size_t axis = 0;
    for (;;) {
      const std::size_t begin = rest.find_first_not_of(", \t\r");
      if (begin == std::string_view::npos) break;
      rest.remove_prefix(begin);
      const std::string_view word = rest.substr(0, rest.find_first_of(", \t\r"));
      std::int64_t index = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
      if (error != std::errc() || end != word.data() + word.size()) {
        return wrong("line " + std::to_string(number) + ": not an integer of 64 bits");
      }
      if (axis == kMaxPointAxes) return wrong("line " + std::to_string(number) + " has too many coordinates");
      if (number > 1 && axis >= coordinates.size() && !coordinates.empty()) {
        return wrong("line " + std::to_string(number) + " has more coordinates than the lines before it");
      }
      if (axis == coordinates.size()) coordinates.emplace_back();
      coordinates[axis++].push_back(index);
      rest.remove_prefix(word.size());
    }
    if (axis != 0 && axis != coordinates.size()) {
      return wrong("line " + std::to_string(number) + " has fewer coordinates than the lines before it");
    }
  }
  if (file.bad()) return Status(Code::kIo, Layer::kApi, "cannot read the file of points");
  if (coordinates.empty()) return wrong("the file has no points");
  return points(std::move(coordinates));
}

Result<Selection> chosen_selection(const ReadCommandOptions& options) {
  if (!options.blocks.empty()) return parse_blocks(options.blocks);
  if (options.points.empty()) return parse_selection(options.select);
  // A text that contains only numbers and punctuation is not a file name.
  const bool text = options.points.find_first_not_of("0123456789-, []\t\n\r") == std::string::npos;
  return text ? parse_points(options.points) : read_points(options.points);
}

std::string selection_text(const ReadCommandOptions& options) {
  if (!options.points.empty()) return "points " + options.points;
  if (!options.blocks.empty()) return "blocks " + options.blocks;
  return options.select.empty() ? "all" : options.select;
}

int too_large(const std::string& path, const std::string& bytes, const std::string& device) {
  print_error("the selection decodes to " + bytes + ", more than can be allocated on device " + device, path,
              "select a part with --select");
  return kExitFailed;
}

int run_read(const ReadCommandOptions& options) {
  auto selection = chosen_selection(options);
  if (!selection.ok()) {
    const bool points = !options.points.empty(), blocks = !options.blocks.empty();
    print_error((points   ? "--points: "
                 : blocks ? "--blocks: "
                          : "--select: ") +
                    selection.status().message(),
                "'" +
                    one_line(points   ? options.points
                             : blocks ? options.blocks
                                      : options.select) +
                    "'",
                points   ? "write \"[1, 5], [0, 2]\", a list for each dimension, or name a file with a point a line"
                : blocks ? "write numbers and ranges of blocks: \"0, 1:3\""
                         : "write it as in NumPy: \"0:10, :, ::2\", lists as \":, [1, 5, 7]\"");
    return selection.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailed;
  }
  auto device = Device::open(options.device);
  if (!device.ok()) {
    return fail(device.status(), "device " + options.device, "use --device host, or check the driver with nvidia-smi");
  }
  if (!device->host_addressable() && !device->note().empty()) {
    std::fprintf(stderr, "headrace: note: %s: %s\n", device->name().c_str(), one_line(device->note()).c_str());
  }
  auto context = make_context(options);
  if (!context.ok()) return fail(context.status(), "engine " + options.engine, "use --engine auto");
  auto store = Store::open(*context, options.location, options.storage);
  if (!store.ok()) return fail(store.status(), options.path);
  const std::optional<Array> array = open_array(*store, options);
  if (!array) return kExitFailed;
  const ArrayInfo& info = array->info();
  note_lenient_uses(info);
  if (!options.index.empty()) {
    std::fprintf(stderr, "headrace: note: decode indices: %s%s\n", one_line(info.decode_index).c_str(),
                 device->host_addressable() ? "; the CPU decodes without" : "");
  }
  auto resolved = array->resolve(*selection);
  if (!resolved.ok()) {
    return fail(resolved.status(), options.path + " of shape " + shape_text(info.shape), "select inside the shape");
  }
  if (info.dtype.is_variable_length()) {
    const bool converts = !options.dtype.empty() || options.scale != 1 || options.offset != 0 || options.fill_as_nan ||
                          options.damage_as_nan;
    if (converts || (!device->host_addressable() && options.device != "auto")) {
      print_error(converts ? "elements of variable length cannot be converted"
                           : "elements of variable length are read to the host",
                  options.path + " of type " + dtype_text(info.dtype),
                  converts ? "read them as stored" : "leave out --device " + options.device);
      return kExitUsage;
    }
    return read_variable_array({options.path, options.select, options.output, options.raw, options.npy, options.sha256,
                                options.stats, options.json, options.report, options.slab_bytes},
                               *context, *array, *selection, *resolved);
  }
  ReadOptions read_options;
  read_options.dtype = options.dtype;
  read_options.scale = options.scale;
  read_options.offset = options.offset;
  read_options.fill_as_nan = options.fill_as_nan;
  read_options.damage_as_nan = options.damage_as_nan;
  const auto dtype = result_dtype(info.dtype, read_options);
  if (!dtype.ok()) {
    return fail(dtype.status(), options.path + " of type " + dtype_text(info.dtype), "see 'headrace read --help'");
  }
  const auto bytes = decoded_bytes(resolved->shape, dtype->item_bytes);
  if (!bytes) return too_large(options.path, "more than 2^64 bytes", device->name());
  const std::string need = human_bytes(*bytes) + " (" + human_count(*bytes) + " bytes)";
  const bool npy = options.npy || (!options.raw && options.output.size() >= 4 &&
                                   options.output.compare(options.output.size() - 4, 4, ".npy") == 0);
  OutputFile output;
  if (!options.output.empty()) {
    // Opened before the read, so that an unwritable output is reported first.
    if (Status status = output.open(options.output); !status.ok())
      return fail(status, "output", output_advice(status, "-o"));
  }
  if (Status status = output.check_room(*bytes); !status.ok())
    return fail(status, "output", "select a part with --select, or " + output_advice(status, "-o"));
  RunReport run_report;
  read_options.placement = placement_of(options.placement);
  read_options.verify = options.whole ? Verify::kWhole : Verify::kAsRead;
  Sha256 hash;
  ReadDelivery::To to;
  if (!options.output.empty()) to.output = &output;
  if (options.sha256) to.hash = &hash;
  // With a file or a hash, the array is read in parts; without, all of it is held in device memory at the end.
  ReadSlabs slabs(info, *selection, *resolved, dtype->item_bytes, to.any() ? options.slab_bytes : UINT64_MAX,
                  to.hash != nullptr || !output.any_order());
  if (device->host_addressable() && slabs.max_bytes() > host_memory_bytes())
    return too_large(options.path, need, device->name());
  ReadDelivery delivery(*array, *device, *dtype, read_options, run_report);
  if (Status status = delivery.allocate(slabs); !status.ok()) {
    if (status.code() == Code::kResourceExhausted) return too_large(options.path, need, device->name());
    return fail(status, "device " + device->name());
  }
  if (npy && to.output != nullptr) {
    const std::string header = npy_header(*dtype, resolved->shape);
    const Status written = output.write(std::as_bytes(std::span(header.data(), header.size())));
    if (!written.ok()) return fail(written, "output", output_advice(written, "-o"));
    to.offset = header.size();
    if (dtype->kind == TypeKind::kBfloat16) {
      std::fputs("headrace: note: NumPy has no bfloat16; it is written as two raw bytes an element (V2)\n", stderr);
    }
  }
  ProgressBar bar("read");
  if (Status status = run_report.begin(options.report); !status.ok())
    return fail(status, "report", output_advice(status, "--report and --trace"));
  const std::uint64_t begin_ns = RunReport::now_ns();
  Status status = delivery.run(slabs, to, resolved->shape, bar);
  bar.clear();
  if (!status.ok() && !delivery.output_failed()) return fail(status, options.path);
  if (status.ok() && to.output != nullptr) status = output.commit();
  if (!status.ok()) return fail(status, "output", output_advice(status, "-o"));
  const Stats& stats = delivery.stats();
  // Time of the whole run. Without an output it is the time of the read, which is measured separately.
  const double run_seconds = to.any() ? static_cast<double>(RunReport::now_ns() - begin_ns) * 1e-9 : stats.wall_seconds;
  run_report.end(run_seconds);
  const double seconds = stats.wall_seconds;
  const std::string digest = options.sha256 ? hash.finish() : "";
  const std::string decoder = device->host_addressable() ? "" : device->name();

  ReportSummary summary;
  summary.title = "headrace read " + options.path;
  summary.facts.push_back({"run",
                           {{"selection", selection_text(options)},
                            {"shape", shape_text(resolved->shape)},
                            {"data type", dtype_text(info.dtype)},
                            {"result type", dtype_text(*dtype)},
                            {"device", device->name()},
                            {"engine", context->engine_name()}}});
  for (ReportTable& table : stats_tables(stats, decoder)) summary.facts.push_back(std::move(table));
  if (to.any()) {
    summary.facts.back().rows.push_back({kWholeRun, human_seconds(run_seconds)});
  }
  if (Status written = run_report.write(std::move(summary)); !written.ok())
    return fail(written, "report", output_advice(written, "--report and --trace"));

  // The report must not mix with data on standard output.
  FILE* report = !options.output.empty() && is_standard_output(options.output) ? stderr : stdout;
  if (options.json) {
    print_json({{"path", options.path},
                {"zarr_format", info.zarr_format},
                {"array_shape", info.shape},
                {"data_type", dtype_text(info.dtype)},
                {"item_bytes", info.dtype.item_bytes},
                {"result_type", dtype_text(*dtype)},
                {"selection", options.select},
                {"points", options.points},
                {"blocks", options.blocks},
                {"shape", resolved->shape},
                {"device", device->name()},
                {"device_description", device->description()},
                {"device_note", device->note()},
                {"engine", context->engine_name()},
                {"output", text_or_null(options.output)},
                {"output_format", options.output.empty() ? Json() : Json(npy ? "npy" : "raw")},
                {"sha256", text_or_null(digest)},
                {"decoded_bytes", *bytes},
                {"seconds", seconds},
                {"run_seconds", run_seconds},
                {"decoded_bytes_per_second", static_cast<double>(*bytes) / seconds},
                {"stats", stats_json(stats)}},
               report);
    return kExitOk;
  }
  if (options.output.empty() || options.stats) {
    std::fprintf(report, "read %s %s %s onto %s: %s decoded in %s, %s decoded; path: %s\n",
                 one_line(options.path).c_str(), shape_text(resolved->shape).c_str(), dtype_text(*dtype).c_str(),
                 device->name().c_str(), human_bytes(*bytes).c_str(), human_seconds(seconds).c_str(),
                 human_rate(*bytes, seconds).c_str(), stats.path.empty() ? "none" : stats.path.c_str());
  }
  if (options.sha256) std::fprintf(report, "sha256 %s\n", digest.c_str());
  if (options.stats) std::fputs(stats_table(stats, decoder).c_str(), report);
  return kExitOk;
}

}  // namespace

Verb add_read_command(CLI::App& app) {
  auto options = std::make_shared<ReadCommandOptions>();
  CLI::App* verb = app.add_subcommand("read", "read an array or a part of it into device memory");
  add_path_and_json(*verb, *options);
  add_engine_and_threads(*verb, *options);
  add_stored_budget(*verb, *options);
  add_lenient(*verb, *options);
  CLI::Option* select =
      verb->add_option("--select", options->select,
                       "part to read, as in NumPy: \"0:10, :, ::2\", \"..., 5\"; lists by dimension: \":, [1, 5, 7]\"")
          ->type_name("TEXT");
  CLI::Option* points =
      verb->add_option("--points", options->points,
                       "single elements: \"[1, 5], [0, 2]\", a list for each dimension, or a file with a point a line")
          ->type_name("TEXT|FILE")
          ->excludes(select);
  verb->add_option("--blocks", options->blocks, "whole chunks of the grid, shards where it is sharded: \"0, 1:3\"")
      ->type_name("TEXT")
      ->excludes(select)
      ->excludes(points);
  verb->add_option("--device", options->device, device_help())->check(check_device_name)->type_name("NAME");
  add_placement(*verb, options->placement);
  verb->add_flag("--whole", options->whole,
                 "decode each chunk completely, so that damage outside the selection is found");
  verb->add_option("--index", options->index, "directory of the decode indices that 'headrace index' has made")
      ->type_name("DIR");
  verb->add_option("-o,--output", options->output, "write the result here; - is standard output")->type_name("FILE");
  verb->add_option(
          "--slab", options->slab_bytes,
          "-o and --sha256 read this much at a time, two of it in memory, or a chunk where that is larger (256M)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 50))
      ->type_name("SIZE");
  verb->add_option("--dtype", options->dtype,
                   "convert the elements: float16, bfloat16, float32, float64, int8 to uint64")
      ->check(CLI::IsMember({"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
                             "uint16", "uint32", "uint64"}))
      ->type_name("TYPE");
  verb->add_option("--scale", options->scale, "multiply each stored number by this (CF: scale_factor)")->type_name("X");
  verb->add_option("--offset", options->offset, "and add this (CF: add_offset)")->type_name("X");
  verb->add_flag("--nan-damage", options->damage_as_nan, "NaN for elements of damaged chunks, instead of ending there");
  verb->add_flag("--nan-fill", options->fill_as_nan, "NaN for elements equal to the fill value and for missing chunks");
  CLI::Option* raw = verb->add_flag("--raw", options->raw,
                                    "-o: elements only, C order, little-endian, packed; of variable length: "
                                    "each after its length (4 bytes, little-endian)");
  CLI::Option* npy = verb->add_flag("--npy", options->npy,
                                    "-o: NumPy's format (the default for names in .npy); strings of variable "
                                    "length are written as JSON unless --raw is given");
  raw->excludes(npy);
  verb->add_flag("--sha256", options->sha256, "print the SHA-256 of the elements as --raw writes them");
  verb->add_flag("--stats", options->stats, "print bytes by kind and path, and the time of each stage");
  add_report_options(*verb, options->report);
  verb->footer(
      "Examples:\n"
      "  headrace read era5.zarr/t2m --stats                    how fast, and by which path\n"
      "  headrace read era5.zarr/t2m --select '0:24, :, ::2' -o t2m.npy\n"
      "  headrace read era5.zarr/t2m --device host --sha256\n"
      "  headrace read era5.zarr/t2m --dtype float32 --scale 0.00166 --offset 258.5 --nan-fill -o t2m.npy\n"
      "  headrace read era5.zarr/t2m --report read.html         what held it back, as a page\n"
      "  headrace read era5.zarr/t2m --raw -o - | xxd | head");
  return {verb, [options, verb] {
            if ((options->raw || options->npy) && options->output.empty()) {
              print_error("--raw and --npy choose the format of -o, which is not given", "command line",
                          "see 'headrace read --help'");
              return static_cast<int>(kExitUsage);
            }
            if (verb->count("--output") > 0 && options->output.empty()) {
              print_error("-o is empty", "command line", "name a file");
              return static_cast<int>(kExitUsage);
            }
            return run_read(*options);
          }};
}

}  // namespace headrace::cli
