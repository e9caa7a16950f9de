// headrace bench: measures transfers between files and device memory, with fio's options.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench_interrupt.h"
#include "bench_report.h"
#include "bench_runner.h"
#include "bench_text.h"
#include "cli_common.h"
#include "fio_json.h"
#include "fio_keys.h"
#include "job_file.h"
#include "output_file.h"

namespace headrace::cli {
namespace {

using namespace headrace::bench;

constexpr const char* kSeeKeys = "'headrace bench --help' lists the keys";
constexpr const char* kGeneralKeys[] = {"output",  "output-format", "parse-only", "report",   "trace",
                                        "threads", "eta",           "section",    "readonly", "help"};

struct BenchCommandOptions {
  std::vector<std::string> files;
  std::vector<std::string> sections;
  std::string output, format = "normal", eta = "auto";
  ReportOptions report;
  unsigned threads = 0;
  bool parse_only = false, readonly = false;
};

// CLI11's value of an option whose optional value is missing.
constexpr const char* kNoValue = "true";

int usage(const Status& status, std::string_view where) {
  print_error(status.message(), status.key().empty() ? where : status.key(), kSeeKeys);
  return kExitUsage;
}

// "--key=value", "--key value" and "--flag" in command-line order, which decides the job that each belongs to.
std::vector<std::pair<std::string, std::string>> ordered_arguments(const CLI::App& verb) {
  std::vector<std::pair<std::string, std::string>> out;
  std::vector<std::pair<const CLI::Option*, std::size_t>> seen;
  for (const CLI::Option* option : verb.parse_order()) {
    const std::string name = option->get_single_name();
    const JobKey* key = find_job_key(name);
    const OtherFioKey* other = find_other_fio_key(name);
    if (key == nullptr && other == nullptr) continue;
    std::size_t nth = 0;
    for (const auto& [before, count] : seen) nth += before == option ? 1 : 0;
    seen.emplace_back(option, 1);
    if (nth >= option->results().size()) continue;
    std::string value = option->results()[nth];
    const bool optional = key != nullptr ? key->value_name != nullptr && key->value_name[0] == '[' : true;
    if (optional && value == kNoValue) value.clear();
    out.emplace_back(name, std::move(value));
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

// Advice for a failed job; empty if the default advice fits.
const char* advice_for(const Status& status) {
  if (status.system_error() == ENOSPC) return "free space or write elsewhere (the failed request is not counted)";
  if (status.system_error() == EMFILE) return "lower nrfiles or numjobs, or raise the limit of open files (ulimit -n)";
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

// Handles fio options that belong to no job: each adds a note or is an error.
Status note_arguments(const CLI::App& verb, std::vector<JobOptions>& jobs) {
  for (const OtherFioKey& key : other_fio_arguments()) {
    const CLI::Option* option = verb.get_option("--" + std::string(key.name));
    if (option->count() == 0) continue;
    const std::string value = option->results().back();
    HEADRACE_TRY(check_other_value(key, value == kNoValue ? "" : value));
    for (JobOptions& job : jobs) job.notes.push_back({key.name, std::string("has no effect: ") + key.text});
  }
  return {};
}

// Keeps the requested sections, in file order; all, if none was requested.
Status choose_sections(const std::vector<std::string>& sections, std::vector<JobOptions>& jobs) {
  for (const std::string& section : sections) {
    const auto named = [&](const JobOptions& job) { return job.name == section; };
    if (std::any_of(jobs.begin(), jobs.end(), named)) continue;
    return {Code::kInvalidArgument, Layer::kApi, "--section: there is no job '" + section.substr(0, 80) + "'"};
  }
  if (sections.empty()) return {};
  std::erase_if(jobs, [&](const JobOptions& job) {
    return std::find(sections.begin(), sections.end(), job.name) == sections.end();
  });
  return {};
}

Status check_jobs(const BenchCommandOptions& options, const CLI::App& verb, std::vector<JobOptions>& jobs) {
  HEADRACE_TRY(choose_sections(options.sections, jobs));
  HEADRACE_TRY(note_arguments(verb, jobs));
  for (JobOptions& job : jobs) {
    note_idle_options(job);
    job.may_create = job.may_create && !options.readonly;
    Status status = check_options(job);
    if (status.ok() && options.readonly && job.write) {
      status = Status(Code::kInvalidArgument, Layer::kApi, "--readonly: the job writes");
    }
    if (!status.ok()) return std::move(status).with_key("job " + job.name);
  }
  return {};
}

// With --parse-only there is no result that could show them.
void print_notes(const std::vector<JobOptions>& jobs) {
  std::vector<std::string> said;
  for (const JobOptions& job : jobs) {
    for (const OptionNote& note : job.notes) {
      const std::string line = note.key + ": " + note.text;
      if (std::find(said.begin(), said.end(), line) != said.end()) continue;
      std::fprintf(stderr, "headrace: note: %s\n", one_line(line).c_str());
      said.push_back(line);
    }
  }
}

// `formats`: "normal", "json", "json+", or several separated by commas; their outputs are concatenated.
std::string formatted(const BenchOutcome& outcome, std::string_view formats) {
  std::string out;
  while (!formats.empty()) {
    const std::string_view format = formats.substr(0, formats.find(','));
    formats.remove_prefix(std::min(format.size() + 1, formats.size()));
    out += format == "normal" ? bench_text(outcome) : fio_json(outcome, format == "json+");
  }
  return out;
}

std::string check_formats(const std::string& formats) {
  std::string_view left = formats;
  do {
    const std::string_view format = left.substr(0, left.find(','));
    left.remove_prefix(std::min(format.size() + 1, left.size()));
    if (format != "normal" && format != "json" && format != "json+") {
      return "'" + std::string(format) + "' is not one of normal, json, json+";
    }
  } while (!left.empty());
  return {};
}

int run_bench(const BenchCommandOptions& options, const CLI::App& verb) {
  std::vector<JobOptions> jobs;
  for (const std::string& path : options.files) {
    if (!path.empty() && path.front() == '-') return report_unknown(path);
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    // Reading an empty file this way would set failbit, although it is no error.
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
  if (Status status = check_jobs(options, verb, *all); !status.ok()) return usage(status, "command line");
  if (options.parse_only) {
    print_notes(*all);
    return kExitOk;
  }

  // Opened before the jobs run, so that an unwritable output is reported first.
  OutputFile output;
  if (Status status = output.open(options.output.empty() ? "-" : options.output); !status.ok())
    return fail_output(status);
  RunReport report;
  if (Status status = report.begin(options.report); !status.ok())
    return fail(status, "report", output_advice(status, "--report and --trace"));
  note_interrupts();
  RunOptions run;
  run.worker_threads = options.threads;
  run.show_progress = options.eta != "never";
  run.always_progress = options.eta == "always";
  auto outcome = run_jobs(*all, run);
  report.end();
  if (!outcome.ok()) {
    const Status& status = outcome.status();
    const int code = fail(status, status.key().empty() ? "bench" : status.key(), advice_for(status));
    raise_noted_interrupt();
    return code;
  }
  if (Status status = report.write(report_summary(*outcome)); !status.ok())
    return fail(status, "report", output_advice(status, "--report and --trace"));
  const std::string text = formatted(*outcome, options.format);
  Status written = output.write(std::as_bytes(std::span(text.data(), text.size())));
  if (written.ok()) written = output.commit();
  if (!written.ok()) return fail_output(written);
  const int code = report_failures(*outcome);
  raise_noted_interrupt();
  return code;
}

}  // namespace

Verb add_bench_command(CLI::App& app) {
  auto options = std::make_shared<BenchCommandOptions>();
  CLI::App* verb = app.add_subcommand("bench", "measure transfers between files and device memory, driven as fio is");
  // Unknown options are collected, so that the error can suggest the intended one.
  verb->allow_extras();
  verb->add_option("JOBFILE", options->files, "job files; every option then replaces that of each of their jobs");
  for (const JobKey& key : job_keys()) {
    std::string names = "--" + std::string(key.name);
    if (*key.alias != 0) names += ",--" + std::string(key.alias);
    CLI::Option* option = nullptr;
    if (key.value_name == nullptr) {
      option = verb->add_flag(names)->type_name("");
    } else {
      option = verb->add_option(names)->type_name(key.value_name);
      key.value_name[0] == '[' ? option->expected(0, 1) : option->expected(1);
    }
    option->description(help_of(key))->group(key.group)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  // Hidden in --help: these have no effect, or are rejected with a suggestion.
  for (const auto keys : {other_fio_keys(), other_fio_arguments()}) {
    for (const OtherFioKey& key : keys) {
      std::string names = "--" + std::string(key.name);
      if (*key.alias != 0) names += ",--" + std::string(key.alias);
      const bool flag = key.values != nullptr && std::string_view(key.values).substr(0, 3) == "0|1";
      CLI::Option* option =
          flag ? verb->add_flag(names) : verb->add_option(names)->expected(key.values == nullptr ? 0 : 1, 1);
      option->group("")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
  verb->add_option("--output", options->output, "write the result to this file, atomically")->type_name("FILE");
  verb->add_option("--output-format", options->format, "normal (the default), json, json+, or several: normal,json")
      ->check(check_formats)
      ->type_name("FORMAT");
  add_report_options(*verb, options->report);
  verb->add_option("--threads", options->threads, "the library's worker threads; 0: the CPUs this process may use")
      ->check(CLI::Range(0u, 1024u))
      ->type_name("N");
  verb->add_option("--eta", options->eta, "the progress line: auto (on a terminal; the default), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  verb->add_option("--section", options->sections, "run this job of the job files alone; may be repeated")
      ->type_name("NAME");
  verb->add_flag("--readonly", options->readonly, "refuse jobs that write, and make no file");
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
