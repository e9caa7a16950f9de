// headrace cache: shows and clears the directory in which remote stores cache what they read.
#include <headrace/disk_cache.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli_common.h"
#include "json_text.h"

namespace headrace::cli {
namespace {

struct CacheCommandOptions {
  std::string directory;
  bool json = false;
  CLI::App *list = nullptr, *total = nullptr, *verify = nullptr, *clear = nullptr;
};

const char* state_of(const DiskCacheSegment& segment) {
  if (segment.foreign) return "foreign";
  if (segment.growing) return "growing";
  return segment.sealed ? "sealed" : "open";
}

Json json_of(const DiskCacheSegment& segment, bool verified) {
  Json out = {{"name", segment.name},       {"state", state_of(segment)},       {"file_bytes", segment.file_bytes},
              {"records", segment.records}, {"data_bytes", segment.data_bytes}, {"torn_bytes", segment.torn_bytes}};
  if (verified) out["damaged_records"] = segment.damaged_records;
  return out;
}

Json totals_of(const DiskCacheReport& report, bool verified) {
  Json out = {{"directory", report.directory},   {"segments", report.segments.size()},
              {"file_bytes", report.file_bytes}, {"records", report.records},
              {"data_bytes", report.data_bytes}, {"disk_free_bytes", report.disk_free_bytes}};
  if (verified) out["damaged_records"] = report.damaged_records;
  return out;
}

void print_totals(const DiskCacheReport& report) {
  std::printf("%s: %s of %s ranges in %s segments, %s on the disk; %s are free there\n",
              one_line(report.directory).c_str(), human_bytes(report.data_bytes).c_str(),
              human_count(report.records).c_str(), human_count(report.segments.size()).c_str(),
              human_bytes(report.file_bytes).c_str(), human_bytes(report.disk_free_bytes).c_str());
}

void print_list(const DiskCacheReport& report) {
  std::size_t width = 7;
  for (const DiskCacheSegment& segment : report.segments) width = std::max(width, segment.name.size());
  std::printf("%-*s  %-8s %12s %10s\n", static_cast<int>(width), "segment", "state", "size", "ranges");
  for (const DiskCacheSegment& segment : report.segments) {
    std::printf("%-*s  %-8s %12s %10s\n", static_cast<int>(width), one_line(segment.name).c_str(), state_of(segment),
                human_bytes(segment.file_bytes).c_str(), human_count(segment.records).c_str());
  }
}

int run_clear(const CacheCommandOptions& options) {
  const auto freed = clear_disk_cache(options.directory);
  if (!freed.ok()) return fail(freed.status(), options.directory, "name the cache directory with --dir");
  if (options.json) {
    print_json({{"directory", options.directory}, {"freed_bytes", *freed}});
  } else {
    std::printf("%s freed in %s\n", human_bytes(*freed).c_str(), one_line(options.directory).c_str());
  }
  return kExitOk;
}

int run_cache(const CacheCommandOptions& given) {
  CacheCommandOptions options = given;
  if (options.directory.empty()) {
    const char* const named = std::getenv("HEADRACE_CACHE_DIR");
    if (named != nullptr) options.directory = named;
  }
  if (options.directory.empty() || options.directory == "off") {
    print_error("no cache directory is named", "command line", "give --dir, or set HEADRACE_CACHE_DIR");
    return kExitUsage;
  }
  if (options.clear->parsed()) return run_clear(options);
  const bool verify = options.verify->parsed();
  const auto report = inspect_disk_cache(options.directory, verify);
  if (!report.ok()) return fail(report.status(), options.directory, "name the cache directory with --dir");
  if (options.json) {
    Json json = totals_of(*report, verify);
    if (!options.total->parsed()) {
      Json segments = Json::array();
      for (const DiskCacheSegment& segment : report->segments) segments.push_back(json_of(segment, verify));
      json["segments"] = std::move(segments);
    }
    print_json(json);
  } else {
    if (options.list->parsed()) print_list(*report);
    print_totals(*report);
    if (verify) {
      std::printf("%s of %s ranges are damaged%s\n", human_count(report->damaged_records).c_str(),
                  human_count(report->records).c_str(),
                  report->damaged_records > 0 ? ": they are read from their stores again" : "");
    }
  }
  return verify && report->damaged_records > 0 ? kExitFailed : kExitOk;
}

}  // namespace

Verb add_cache_command(CLI::App& app) {
  auto options = std::make_shared<CacheCommandOptions>();
  CLI::App* verb = app.add_subcommand("cache", "look at, check or empty the disk cache of remote stores");
  verb->require_subcommand(1);
  options->list = verb->add_subcommand("ls", "the segments of the directory");
  options->total = verb->add_subcommand("stat", "how much there is in all");
  options->verify =
      verb->add_subcommand("verify", "read everything and compare checksums; exit code 1: some is damaged");
  options->clear = verb->add_subcommand("clear", "remove all of it, also while it is in use");
  for (CLI::App* one : {options->list, options->total, options->verify, options->clear}) {
    one->add_option("--dir", options->directory, "the directory; without: HEADRACE_CACHE_DIR")->type_name("DIR");
    one->add_flag("--json", options->json, "a JSON object on standard output");
  }
  verb->footer(
      "Remote stores keep what they read in a directory that the storage option cache_dir or HEADRACE_CACHE_DIR "
      "names.\n"
      "\nExamples:\n"
      "  headrace cache stat --dir /nvme/headrace-cache\n"
      "  headrace cache ls\n"
      "  headrace cache verify --json\n"
      "  headrace cache clear");
  return {verb, [options] { return run_cache(*options); }};
}

}  // namespace headrace::cli
