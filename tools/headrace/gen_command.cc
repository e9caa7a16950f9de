// headrace gen: generates data for benchmarks and tests, reproducibly from a seed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli_common.h"
#include "gen/byte_generator.h"
#include "gen/parallel.h"
#include "gen/pending_output.h"
#include "gen/store_generator.h"
#include "gen/workload.h"
#include "json_text.h"
#include "progress_bar.h"

namespace headrace::cli {
namespace {

constexpr const char* kFullDisk = "free space, write less with --scale or --size, or choose another place";

struct GenOptions : WorkloadOptions {
  std::string path, raw, files, content = "random";
  std::vector<std::string> chunk_texts;
  std::uint64_t size = 0, count = 0;
  unsigned threads = 0;
  bool json = false, overwrite = false;
};

int usage(std::string_view what, std::string_view advice = "see 'headrace gen --help'") {
  print_error(what, "command line", advice);
  return kExitUsage;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int fail_output(const Status& status, const std::string& place, bool overwrite) {
  std::string_view advice = kFullDisk;
  if (status.code() == Code::kInvalidArgument) {
    advice = overwrite ? "choose another place" : "choose another place, or replace what is there with --overwrite";
  }
  if (status.code() == Code::kPermission) advice = "check the permissions of the directory, or choose another place";
  if (status.system_error() == EEXIST) advice = "remove it if no other run writes it";
  if (status.system_error() == ENOENT) advice = "create its parent directory first";
  if (status.code() == Code::kCancelled) advice = "nothing was left behind, run it again";
  if (status.code() == Code::kResourceExhausted) advice = "use fewer --threads or a smaller --chunk";
  fail(status, place, advice);
  return kExitFailed;
}

// "1,721,1440" -> its numbers; empty if the text is malformed.
std::vector<std::uint64_t> parse_shape(const std::string& text) {
  std::vector<std::uint64_t> shape;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    std::uint64_t number = 0;
    if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos || part.size() > 18) return {};
    number = std::stoull(part);
    if (number == 0) return {};
    shape.push_back(number);
  }
  return shape;
}

// --overwrite may remove only Zarr stores.
std::string refuse_to_replace_store(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(path, ignored))) return "it is not a directory";
  for (const char* name : {".zgroup", "zarr.json", ".zarray"}) {
    if (fs::exists(path + "/" + name, ignored)) return {};
  }
  return fs::is_empty(path, ignored) ? "" : "it is not a Zarr store";
}

// May replace only files of an earlier run.
std::string refuse_to_replace_files(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return "it is not a directory";
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    if (name.size() < 8 || name.find_first_not_of("0123456789") != std::string::npos) {
      return "it holds '" + name + "', which is not from headrace gen";
    }
  }
  return error ? error.message() : std::string();
}

const char* format_name(StoreFormat format) {
  return format == StoreFormat::kV2 ? "v2" : format == StoreFormat::kV3 ? "v3" : "sharded";
}

void report_store(const GenOptions& options, const StorePlan& plan, const GeneratedStore& made, double seconds) {
  const CodecChoice codec = plan.arrays.back().codec;
  if (options.json) {
    Json arrays = Json::array();
    for (const ArrayPlan& array : plan.arrays) {
      arrays.push_back({{"name", array.name},
                        {"data_type", array.data_type},
                        {"shape", array.shape},
                        {"chunk_shape", array.chunk},
                        {"shard_shape", array.shard.empty() ? Json() : Json(array.shard)}});
    }
    print_json({{"path", options.path},
                {"workload", options.workload},
                {"format", format_name(plan.format)},
                {"codec", codec_text(codec)},
                {"seed", options.seed},
                {"arrays", std::move(arrays)},
                {"chunks", made.chunks},
                {"objects", made.objects},
                {"decoded_bytes", plan.decoded_bytes},
                {"stored_bytes", made.stored_bytes},
                {"seconds", seconds},
                {"decoded_bytes_per_second", static_cast<double>(plan.decoded_bytes) / seconds}});
    return;
  }
  char ratio[32];
  std::snprintf(
      ratio, sizeof ratio, "%.2f",
      static_cast<double>(plan.decoded_bytes) / static_cast<double>(std::max<std::uint64_t>(made.stored_bytes, 1)));
  std::printf(
      "wrote %s: %s %s, codec %s: %s chunks in %s objects, %s decoded, %s stored, decoded/stored %s, in %s, "
      "%s decoded\n",
      one_line(options.path).c_str(), options.workload.c_str(), format_name(plan.format), codec_text(codec).c_str(),
      human_count(made.chunks).c_str(), human_count(made.objects).c_str(), human_bytes(plan.decoded_bytes).c_str(),
      human_bytes(made.stored_bytes).c_str(), ratio, human_seconds(seconds).c_str(),
      human_rate(plan.decoded_bytes, seconds).c_str());
}

int run_store(GenOptions options) {
  const auto directory = local_directory(options.path);
  if (!directory) return usage("a store is written to a directory, not to " + options.path);
  for (const std::string& text : options.chunk_texts) options.chunks.push_back(parse_shape(text));
  options.decoded_bytes = options.size;
  const auto plan = plan_workload(options);
  if (!plan.ok()) return usage(plan.status().message());
  if (options.size != 0 && options.size < plan->step_bytes) {
    return usage("--size is less than one time step of " + options.workload + ", which has " +
                 human_count(plan->step_bytes) + " bytes");
  }
  PendingOutput output;
  if (Status status = output.create_directory(*directory, options.overwrite, refuse_to_replace_store); !status.ok()) {
    return fail_output(status, options.path, options.overwrite);
  }
  if (plan->arrays.back().codec.kind == CodecChoice::Kind::kNone) {
    std::error_code error;
    const auto space = std::filesystem::space(output.partial_path(), error);
    if (!error && space.available < plan->decoded_bytes) {
      print_error("the store takes " + human_bytes(plan->decoded_bytes) + ", the disk has " +
                      human_bytes(space.available) + " free",
                  options.path, kFullDisk);
      return kExitFailed;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const FieldSource source(options.seed, plan->arrays.back().channels[0].model != nullptr);
  ProgressBar bar("gen");
  const auto made = generate_store(*plan, source, output.partial_path(), options.threads,
                                   [&bar](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  bar.clear();
  if (!made.ok()) return fail_output(made.status(), options.path, options.overwrite);
  if (Status status = output.commit(); !status.ok()) return fail_output(status, options.path, options.overwrite);
  report_store(options, *plan, *made, seconds_since(start));
  return kExitOk;
}

// Writes one raw file or many.
int run_bytes(const GenOptions& options) {
  const bool many = !options.files.empty();
  const std::string& place = many ? options.files : options.raw;
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(options.size, many ? options.count : 1, &total) || total > INT64_MAX) {
    return usage("--size, times --count if given, is 2^63 bytes or more");
  }
  PendingOutput output;
  const Status created = many ? output.create_directory(place, options.overwrite, refuse_to_replace_files)
                              : output.create_file(place, options.overwrite);
  if (!created.ok()) return fail_output(created, place, options.overwrite);
  const ByteContent content = options.content == "field" ? ByteContent::kField : ByteContent::kRandom;
  const auto start = std::chrono::steady_clock::now();
  const FieldSource source(options.seed, content == ByteContent::kField);
  ProgressBar bar("gen");
  const ByteProgress progress = [&bar](std::uint64_t done, std::uint64_t of) { bar.update(done, of); };
  Status status = many ? generate_files(output.partial_path(), options.count, options.size, content, source,
                                        options.threads, progress)
                       : generate_file(output.fd(), options.size, content, source, options.threads, progress);
  bar.clear();
  if (status.ok()) status = output.commit();
  if (!status.ok()) return fail_output(status, place, options.overwrite);
  const double seconds = seconds_since(start);
  if (options.json) {
    print_json({{"path", place},
                {"content", options.content},
                {"seed", options.seed},
                {"files", many ? options.count : 1},
                {"file_bytes", options.size},
                {"stored_bytes", total},
                {"seconds", seconds},
                {"stored_bytes_per_second", static_cast<double>(total) / seconds}});
    return kExitOk;
  }
  const std::string what = many ? human_count(options.count) + " files of " + human_bytes(options.size) : "one file";
  std::printf("wrote %s: %s, %s stored in %s, %s stored\n", one_line(place).c_str(), what.c_str(),
              human_bytes(total).c_str(), human_seconds(seconds).c_str(), human_rate(total, seconds).c_str());
  return kExitOk;
}

int run_gen(const GenOptions& options, const CLI::App& verb) {
  const bool store = !options.path.empty();
  const auto given = [&verb](const char* name) { return verb.count(name) > 0; };
  if (store + given("--raw") + given("--files") != 1 || (given("--raw") && options.raw.empty()) ||
      (given("--files") && options.files.empty())) {
    return usage("name one output: PATH for a store, --raw FILE or --files DIR");
  }
  if (store != given("--workload")) {
    return usage(store ? "a store needs --workload" : "--workload is for stores, not for --raw or --files");
  }
  for (const char* name : {"--scale", "--format", "--codec", "--chunk"}) {
    if (!store && given(name)) return usage(std::string(name) + " is for stores, not for --raw or --files");
  }
  if (store && given("--content")) return usage("--content is for --raw and --files; a workload has its own");
  if (given("--count") != given("--files")) return usage("--files needs --count, and --count is only for --files");
  if (!store && !given("--size")) return usage("--raw and --files need --size");
  if (store && given("--size") && options.size == 0) return usage("--size is 0");
  for (const std::string& text : options.chunk_texts) {
    if (parse_shape(text).empty())
      return usage("--chunk '" + text + "' is not a list of numbers above 0 like 1,721,1440");
  }
  if (!std::isfinite(options.scale)) return usage("--scale is not a finite number");
  catch_interrupts();
  const int code = store ? run_store(options) : run_bytes(options);
  raise_caught_interrupt();
  return code;
}

}  // namespace

Verb add_gen_command(CLI::App& app) {
  auto options = std::make_shared<GenOptions>();
  CLI::App* verb = app.add_subcommand("gen", "write data for benchmarks: a Zarr store, a file or many files");
  verb->add_option("PATH", options->path, "the store to write, a directory");
  verb->add_option("--workload", options->workload, "w1 to w6: which arrays, chunks and codec")
      ->check(CLI::IsMember({"w1", "w2", "w3", "w4", "w5", "w6"}))
      ->type_name("NAME");
  CLI::Option* scale =
      verb->add_option("--scale", options->scale, "factor for the number of time steps; chunks keep their shape")
          ->check(CLI::PositiveNumber)
          ->type_name("F");
  verb->add_option("--size", options->size, "bytes: of a file, or decoded ones of a store's data; k, M, G are 1024s")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES")
      ->excludes(scale);
  verb->add_option("--format", options->format, "v2, v3 or sharded (v3, about 64 MiB decoded a shard)")
      ->check(CLI::IsMember({"v2", "v3", "sharded"}))
      ->type_name("NAME");
  verb->add_option("--codec", options->codec,
                   "none, lz4, zstd[:1..22], gzip[:0..9], blosc-lz4[:0..9] or blosc-zstd[:0..9]")
      ->check([](const std::string& text) {
        const auto codec = parse_codec_choice(text);
        return codec.ok() ? std::string() : codec.status().message();
      })
      ->type_name("NAME");
  verb->add_option("--chunk", options->chunk_texts,
                   "chunk shape of the data arrays of that many dimensions: 1,721,1440; may be repeated")
      ->type_name("SHAPE");
  verb->add_option("--raw", options->raw, "write one file of --size bytes instead")->type_name("FILE");
  verb->add_option("--files", options->files, "write --count files of --size bytes instead")->type_name("DIR");
  verb->add_option("--count", options->count, "--files: how many")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{99999999}))
      ->type_name("N");
  verb->add_option("--content", options->content, "--raw, --files: random (does not compress) or field")
      ->check(CLI::IsMember({"random", "field"}))
      ->type_name("NAME");
  verb->add_option("--seed", options->seed, "other numbers for other seeds (default 0)")
      ->check([](const std::string& text) {
        return text.find_first_not_of("0123456789") == std::string::npos ? std::string()
                                                                         : "'" + text + "' is not a number";
      })
      ->type_name("N");
  verb->add_option("--threads", options->threads, "threads; 0: the CPUs this process may use. The bytes stay the same")
      ->check(CLI::Range(0u, 4096u))
      ->type_name("N");
  verb->add_flag("--overwrite", options->overwrite, "replace an existing store or files, after everything is written");
  verb->add_flag("--json", options->json, "print one JSON object instead of text");
  verb->footer(
      "Examples:\n"
      "  headrace gen era5.zarr --workload w1 --scale 0.02\n"
      "  headrace gen train.zarr --workload w3 --format sharded --codec blosc-zstd --size 8G\n"
      "  headrace gen --raw noise.bin --size 4G\n"
      "  headrace gen --files small --count 20000 --size 64k");
  return {verb, [options, verb] { return run_gen(*options, *verb); }};
}

}  // namespace headrace::cli
