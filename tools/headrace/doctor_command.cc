// headrace doctor: what this machine, its limits and its file systems offer for reads, and what will be used.
#include <headrace/system.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli_common.h"
#include "doctor_report.h"
#include "json_text.h"
#include "remote_options.h"

namespace headrace::cli {
namespace {

struct DoctorCommandOptions {
  std::vector<std::string> paths;
  std::string device = "auto";
  std::vector<StorageOption> storage;
  bool quick = false, json = false;
};

int run_doctor(const DoctorCommandOptions& options) {
  SystemReportOptions native;
  native.device = options.device;
  native.measure = !options.quick;
  native.storage = options.storage;
  for (const std::string& path : options.paths) {
    if (is_remote_url(path)) {
      native.urls.push_back(path);
      continue;
    }
    const auto local = local_directory(path);
    if (!local) {
      return fail(Status(Code::kUnsupported, Layer::kApi, "neither a local path nor a supported URL"), shown_path(path),
                  "give a path, file:///path, or a URL of http, https, s3, gs, az or abfs");
    }
    native.paths.push_back(*local);
  }
  const auto report = inspect_system(native);
  if (!report.ok()) return fail(report.status(), "device " + options.device, "use --device auto, or --device host");
  if (options.json) {
    print_json(doctor_json(*report));
  } else {
    std::fputs(doctor_text(*report).c_str(), stdout);
  }
  // Prints one error even if several paths are bad: the report lists them all.
  for (const PathReport& path : report->paths) {
    if (path.status.ok()) continue;
    std::fflush(stdout);
    return fail(path.status, path.path, "check the path; it must be a file or directory that you may read");
  }
  for (const RemoteReport& remote : report->remotes) {
    if (remote.problem == RemoteProblem::kNone) continue;
    std::fflush(stdout);
    return fail(remote.status, remote.url, remote.what_to_do);
  }
  return kExitOk;
}

}  // namespace

Verb add_doctor_command(CLI::App& app) {
  auto options = std::make_shared<DoctorCommandOptions>();
  CLI::App* verb =
      app.add_subcommand("doctor", "show how fast this machine can read, by which path, and what holds it back");
  verb->add_option("PATH", options->paths,
                   "files or directories to look at, and URLs of http, https, s3, gs, az and abfs")
      ->check([](const std::string& text) { return text.empty() ? std::string("PATH is empty") : std::string(); });
  verb->add_option("--device", options->device, device_help() + "; auto is the host and every GPU")
      ->check(check_device_name)
      ->type_name("NAME");
  add_storage_option(*verb, options->storage);
  verb->add_flag("--quick", options->quick, "measure nothing");
  verb->add_flag("--json", options->json, "print one JSON object instead of text");
  verb->footer(
      "Examples:\n"
      "  headrace doctor                    the machine: engines, GPUs, limits\n"
      "  headrace doctor era5.zarr          and how reads of this store will go\n"
      "  headrace doctor /data/x.bin --json\n"
      "  headrace doctor s3://bucket/era5.zarr   credentials, latency, rates, and problems\n\n"
      "Measures for some 3 seconds, and 4 more for each URL, of which it reads 600 MB at most; --quick does not. "
      "Nothing "
      "is written. A missing GPU is not a failure.");
  return {verb, [options] { return run_doctor(*options); }};
}

}  // namespace headrace::cli
