// The main program: verbs, explanations of errors, exit codes.
#include <headrace/headrace.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli_common.h"

namespace headrace::cli {
namespace {

constexpr struct {
  std::string_view name;
  Verb (*add)(CLI::App& app);
} kVerbs[] = {{"info", add_info_command},     {"read", add_read_command},
              {"verify", add_verify_command}, {"doctor", add_doctor_command},
              {"bench", add_bench_command},   {"gen", add_gen_command},
              {"index", add_index_command},   {"stats", add_stats_command},
              {"cache", add_cache_command},   {"cufile-run", add_cufile_run_command}};

// Adds only the verb named by the first word if there is one, else all: declaring all options, above all those of
// `bench`, takes as long as starting the program.
std::vector<Verb> add_verbs(CLI::App& app, std::string_view word) {
  const auto named = std::ranges::find(kVerbs, word, [](const auto& row) { return row.name; });
  if (named != std::end(kVerbs)) return {named->add(app)};
  std::vector<Verb> all;
  for (const auto& row : kVerbs) all.push_back(row.add(app));
  return all;
}

// Explains a command-line error; suggests a similar word for an unknown one.
std::string explain(const CLI::ParseError& error, const CLI::App& app, std::span<const Verb> verbs, int argc,
                    char** argv) {
  const CLI::App* chosen = nullptr;
  for (const Verb& verb : verbs) {
    if (verb.app->parsed()) chosen = verb.app;
  }
  if (chosen == nullptr && argc > 1 && argv[1][0] != '-') {
    NearestWord nearest(argv[1]);
    for (const Verb& verb : verbs) nearest.consider(verb.app->get_name());
    return "unknown command '" + std::string(argv[1]) + "'" + nearest.question();
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  const CLI::App& where = chosen != nullptr ? *chosen : app;
  // In command-line order. The first word that looks like an option causes the others to be unknown.
  const std::vector<std::string> unknown = where.remaining();
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (option == unknown.end()) {
    return unknown.empty() ? std::string(error.what()) : "'" + unknown.front() + "' is one argument too many";
  }
  const std::string name = option->substr(0, option->find('='));
  NearestWord nearest(std::string_view(name).substr(std::min(name.find_first_not_of('-'), name.size())));
  for (const CLI::Option* known : where.get_options()) {
    for (const std::string& word : known->get_lnames()) nearest.consider(word);
  }
  return "unknown option '" + name + "'" + nearest.question("--");
}

int run(int argc, char** argv) {
  CLI::App app("headrace: Zarr arrays from storage into device memory");
  app.name("headrace");
  app.set_version_flag("--version", std::string("headrace ") + hr_version());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  headrace info era5.zarr\n"
      "  headrace read era5.zarr/t2m --select '0:24, :, ::2' -o t2m.npy\n"
      "  headrace verify era5.zarr\n"
      "  headrace doctor era5.zarr\n"
      "  headrace bench --filename=data --bs=4m --iodepth=8\n\n"
      "Exit codes: 0 success; 1 the data or the check failed; 2 the command line is wrong.");
  const std::vector<Verb> verbs = add_verbs(app, argc > 1 ? argv[1] : "");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string command = "headrace";
    for (const Verb& verb : verbs) {
      if (verb.app->parsed()) command += " " + verb.app->get_name();
    }
    print_error(explain(error, app, verbs, argc, argv), "command line", "see '" + command + " --help'");
    return kExitUsage;
  }
  for (const Verb& verb : verbs) {
    if (verb.app->parsed()) return verb.run();
  }
  return kExitUsage;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  int code = kExitFailed;
  try {
    code = run(argc, argv);
  } catch (const std::bad_alloc&) {
    print_error("out of memory", "headrace", "select a part with --select, or free memory");
  } catch (const std::exception& error) {
    print_error(error.what(), "headrace", "this is a bug in headrace: please report it with this line");
  }
  // An output error is a failure too: `headrace info x > /dev/full`.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code == kExitOk) {
    print_error("cannot write the report", "standard output", "free some space or write it elsewhere");
    code = kExitFailed;
  }
  return code;
}

}  // namespace headrace::cli
