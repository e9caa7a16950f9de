// headrace bench: measures how fast bytes travel between files and device memory, driven as fio is.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench_report.h"
#include "bench_runner.h"
#include "bench_text.h"
#include "cli_common.h"
#include "fio_json.h"
#include "job_file.h"
#include "output_file.h"

namespace headrace::cli {
namespace {

using namespace headrace::bench;

constexpr const char* kSeeKeys = "'headrace bench --help' lists the keys";
constexpr const char* kGeneralKeys[] = {"output", "output-format", "parse-only", "report", "trace", "threads", "help"};

struct BenchCommandOptions {
  std::vector<std::string> files;
  std::string output, format = "normal";
  ReportOptions report;
  unsigned threads = 0;
  bool parse_only = false;
};

int usage(const Status& status, std::string_view where) {
  print_error(status.message(), status.key().empty() ? where : status.key(), kSeeKeys);
  return kExitUsage;
}

// "--key=value", "--key value" and "--flag" in the order they were given, which says what belongs to which job.
std::vector<std::pair<std::string, std::string>> ordered_arguments(const CLI::App& verb) {
  std::vector<std::pair<std::string, std::string>> out;
  std::vector<std::pair<const CLI::Option*, std::size_t>> seen;
  for (const CLI::Option* option : verb.parse_order()) {
    const std::string name = option->get_single_name();
    bool is_key = false;
    for (const JobKey& key : job_keys()) is_key = is_key || name == key.name;
    if (!is_key) continue;
    std::size_t nth = 0;
    for (const auto& [before, count] : seen) nth += before == option ? 1 : 0;
    seen.emplace_back(option, 1);
    if (nth < option->results().size()) out.emplace_back(name, option->results()[nth]);
  }
  return out;
}

int report_unknown(const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const std::size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const std::string near = nearest_key(std::string_view(name).substr(dashes), kGeneralKeys);
  print_error("unknown option '" + name + "'" + (near.empty() ? "" : ", did you mean '--" + near + "'?"),
              "command line", kSeeKeys);
  return kExitUsage;
}

// What to do about a job that failed; empty where the advice for all verbs fits.
const char* advice_for(const Status& status) {
  if (status.system_error() == ENOSPC) return "free space or write elsewhere: nothing of the failed request is counted";
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
      return "change the job or the file it names";
    case Code::kShort:
      return "the file became shorter while it was in use: restore it";
    case Code::kResourceExhausted:
      return "lower iodepth, list or bs, or free memory";
    default:
      return "";
  }
}

int fail_output(const Status& status) { return fail(status, "output", output_advice(status, "--output")); }

int report_failures(const BenchOutcome& outcome) {
  std::fflush(stdout);
  std::uint64_t bad = 0, failed = 0;
  const JobResult* first = nullptr;
  for (const JobResult& result : outcome.results) {
    bad += result.verify.bad;
    failed += result.status.ok() ? 0 : 1;
    if (first == nullptr && (!result.status.ok() || result.verify.bad > 0)) first = &result;
  }
  if (first == nullptr) return kExitOk;
  if (bad > 0 && !first->verify.faults.empty()) {
    const VerifyFault& fault = first->verify.faults.front();
    print_error(human_count(bad) + (bad == 1 ? " bad block" : " bad blocks") + " found, first a " +
                    std::string(fault_kind_name(fault.kind)) + ": expected " + fault.expected + ", found " +
                    fault.found,
                first->file + " offset " + std::to_string(fault.offset_bytes),
                "write the file again and, if it happens again, check the disk and the memory");
    return kExitFailed;
  }
  const std::string others = failed > 1 ? " (and " + human_count(failed - 1) + " more jobs)" : "";
  return fail(first->status, "job " + first->options.name + others, advice_for(first->status));
}

int run_bench(const BenchCommandOptions& options, const CLI::App& verb) {
  std::vector<JobOptions> jobs;
  for (const std::string& path : options.files) {
    if (!path.empty() && path.front() == '-') return report_unknown(path);
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    // Inserting nothing sets failbit, which an empty file is no reason for.
    if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
    if (!file.is_open() || file.bad() || text.fail()) {
      print_error("cannot read the job file", path, "name a job file, or give the job by options: --filename=FILE");
      return kExitUsage;
    }
    auto parsed = parse_job_file(text.str(), path);
    if (!parsed.ok()) return usage(parsed.status(), path);
    std::move(parsed->begin(), parsed->end(), std::back_inserter(jobs));
  }
  auto all = jobs_from_arguments(ordered_arguments(verb), std::move(jobs));
  if (!all.ok()) return usage(all.status(), "command line");
  for (const JobOptions& job : *all) {
    if (Status status = check_options(job); !status.ok()) return usage(status, "job " + job.name);
  }
  if (options.parse_only) return kExitOk;

  // Opened before the jobs run: an output that cannot be written is not worth running for.
  OutputFile output;
  if (Status status = output.open(options.output.empty() ? "-" : options.output); !status.ok())
    return fail_output(status);
  RunReport report;
  if (Status status = report.begin(options.report); !status.ok())
    return fail(status, "report", output_advice(status, "--report and --trace"));
  auto outcome = run_jobs(*all, options.threads);
  report.end();
  if (!outcome.ok()) {
    const Status& status = outcome.status();
    return fail(status, status.key().empty() ? "bench" : status.key(), advice_for(status));
  }
  if (Status status = report.write(report_summary(*outcome)); !status.ok())
    return fail(status, "report", output_advice(status, "--report and --trace"));
  const std::string text =
      options.format == "normal" ? bench_text(*outcome) : fio_json(*outcome, options.format == "json+");
  Status written = output.write(std::as_bytes(std::span(text.data(), text.size())));
  if (written.ok()) written = output.commit();
  if (!written.ok()) return fail_output(written);
  return report_failures(*outcome);
}

}  // namespace

Verb add_bench_command(CLI::App& app) {
  auto options = std::make_shared<BenchCommandOptions>();
  CLI::App* verb = app.add_subcommand("bench", "measure transfers between files and device memory, driven as fio is");
  // Unknown options are met here, where the one that was meant is known.
  verb->allow_extras();
  verb->add_option("JOBFILE", options->files, "job files; every option then replaces that of each of their jobs");
  for (const JobKey& key : job_keys()) {
    std::string names = "--" + std::string(key.name);
    if (*key.alias != 0) names += ",--" + std::string(key.alias);
    CLI::Option* option = nullptr;
    if (key.value_name == nullptr) {
      option = verb->add_flag(names)->type_name("");
    } else {
      option = verb->add_option(names)->type_name(key.value_name)->expected(1);
    }
    option->description(key.help)->group(key.group)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  verb->add_option("--output", options->output, "write the result here, whole or not at all")->type_name("FILE");
  verb->add_option("--output-format", options->format, "normal (the default), json, json+")
      ->check(CLI::IsMember({"normal", "json", "json+"}))
      ->type_name("FORMAT");
  add_report_options(*verb, options->report);
  verb->add_option("--threads", options->threads, "the library's worker threads; 0: the CPUs this process may use")
      ->check(CLI::Range(0u, 1024u))
      ->type_name("N");
  verb->add_flag("--parse-only", options->parse_only, "check the options and job files, run nothing");
  verb->footer(
      "Examples:\n"
      "  headrace bench --filename=data --rw=randread --bs=64k --iodepth=8 --runtime=10 --time_based\n"
      "  headrace bench --filename=data --bs=4m --path=mapped --cache=warm --loops=3\n"
      "  headrace bench bench/jobs/warm-64k-random.fio --filename=data --output-format=json\n\n"
      "Sizes are powers of 1024 as fio's; rates are decimal and say of what.");
  return {verb, [options, verb] {
            for (const std::string& extra : verb->remaining()) return report_unknown(extra);
            return run_bench(*options, *verb);
          }};
}

}  // namespace headrace::cli
