// headrace index: builds the decode indices of an array and writes them next to its store.
#include <headrace/decode_index.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli_common.h"
#include "json_text.h"
#include "progress_bar.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

struct IndexCommandOptions : CommonOptions {
  std::string out;
  bool check = false;
};

// Beside the store, not in it: above the outermost group, "era5.zarr.hrindex/t2m" for "era5.zarr/t2m". Empty if the
// store is not a directory.
std::string default_directory(const std::string& path) {
  const auto local = local_directory(path);
  if (!local) return "";
  std::error_code error;
  fs::path root = fs::weakly_canonical(*local, error);
  if (error) return "";
  fs::path below;
  const auto is_group = [&](const fs::path& directory) {
    for (const char* name : {".zgroup", "zarr.json", ".zmetadata"}) {
      if (fs::exists(directory / name, error)) return true;
    }
    return false;
  };
  while (root.has_relative_path() && is_group(root.parent_path())) {
    below = root.filename() / below;
    root = root.parent_path();
  }
  fs::path out = root.string() + ".hrindex";
  if (!below.empty()) out /= below;
  std::string text = out.string();
  if (text.back() == '/') text.pop_back();
  return text;
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print_report(const IndexCommandOptions& options, const DecodeIndexReport& report) {
  std::printf("%s %s: %s of %s chunks have an index (%s), %s need none\n", options.check ? "checked" : "indexed",
              one_line(options.path).c_str(), human_count(report.indexed).c_str(), human_count(report.chunks).c_str(),
              one_line(report.codec).c_str(), human_count(report.small).c_str());
  std::printf("%s of indices: %.2f %% of %s decoded, %.2f %% of %s stored; %s\n",
              human_bytes(report.index_bytes).c_str(), share(report.index_bytes, report.decoded_bytes),
              human_bytes(report.decoded_bytes).c_str(), share(report.index_bytes, report.stored_bytes),
              human_bytes(report.stored_bytes).c_str(), one_line(report.file).c_str());
  if (report.without > 0) {
    std::printf("%s chunks have none: their bytes are damaged, 'headrace verify' tells more\n",
                human_count(report.without).c_str());
  }
  if (options.check) {
    std::printf("%s saved indices are for other bytes, %s chunks have none saved\n", human_count(report.stale).c_str(),
                human_count(report.missing).c_str());
  }
}

void write_report(const IndexCommandOptions& options, const DecodeIndexReport& report) {
  Json json = {{"path", options.path},
               {"file", report.file},
               {"codec", report.codec},
               {"chunks", report.chunks},
               {"indexed", report.indexed},
               {"small", report.small},
               {"without", report.without},
               {"index_bytes", report.index_bytes},
               {"file_bytes", report.file_bytes},
               {"stored_bytes", report.stored_bytes},
               {"decoded_bytes", report.decoded_bytes}};
  if (options.check) {
    json["stale"] = report.stale;
    json["missing"] = report.missing;
  }
  print_json(json);
}

int run_index(const IndexCommandOptions& options) {
  auto context = make_context(options);
  if (!context.ok()) return fail(context.status(), "threads", "see 'headrace index --help'");
  auto store = Store::open(*context, options.location, options.storage);
  if (!store.ok()) return fail(store.status(), options.path);
  const std::optional<Array> array = open_array(*store, options);
  if (!array) return kExitFailed;
  note_lenient_uses(array->info());
  const std::string directory = options.out.empty() ? default_directory(options.path) : options.out;
  if (directory.empty()) {
    print_error("there is no directory beside this store", options.path, "name one with --out");
    return kExitUsage;
  }
  ProgressBar bar(options.check ? "check" : "index");
  DecodeIndexOptions index_options;
  index_options.progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
  const auto report = options.check ? check_decode_index(*array, directory, index_options)
                                    : build_decode_index(*array, directory, index_options);
  bar.clear();
  if (!report.ok()) {
    return fail(report.status(), options.check ? directory : options.path,
                options.check ? "'headrace index' makes it" : "");
  }
  options.json ? write_report(options, *report) : print_report(options, *report);
  return options.check && report->stale + report->missing > 0 ? kExitFailed : kExitOk;
}

}  // namespace

Verb add_index_command(CLI::App& app) {
  auto options = std::make_shared<IndexCommandOptions>();
  CLI::App* verb =
      app.add_subcommand("index", "make the decode indices that let a GPU decode large zstd chunks faster");
  add_path_and_json(*verb, *options);
  add_engine_and_threads(*verb, *options);
  add_stored_budget(*verb, *options);
  add_lenient(*verb, *options);
  verb->add_option("--out", options->out, "directory for them; without: beside the store, STORE.hrindex")
      ->type_name("DIR");
  verb->add_flag("--check", options->check, "make them again and compare with those saved; writes nothing");
  verb->footer(
      "A GPU collects the same indices when it first decodes a chunk; this saves them. The store is not written to. "
      "An\n"
      "index of a chunk that has changed since is found out by the decode that uses it, which is right all the "
      "same.\n\n"
      "Examples:\n"
      "  headrace index era5.zarr/t2m\n"
      "  headrace index era5.zarr/t2m --out /scratch/t2m.hrindex\n"
      "  headrace index era5.zarr/t2m --check\n"
      "  headrace read era5.zarr/t2m --index era5.zarr.hrindex/t2m --stats");
  return {verb, [options] { return run_index(*options); }};
}

}  // namespace headrace::cli
