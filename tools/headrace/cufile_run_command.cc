// headrace cufile-run: runs a cuFile program with headrace's libcufile.so.0 preloaded.
#include <dirent.h>
#include <fcntl.h>
#include <headrace/system.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "cli_common.h"

namespace headrace::cli {
namespace {

struct CufileRunOptions {
  std::vector<std::string> command;
  bool stats = false, quiet = false;
  std::string library;
};

std::string own_directory() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  std::string program(path, length > 0 ? static_cast<std::size_t>(length) : 0);
  return program.substr(0, program.rfind('/'));
}

// Looks in the subfolder cufile of this program's folder, then in that folder itself. This covers the installed tree,
// the build tree and the Python package.
Result<std::string> find_own(const std::string& name) {
  auto found = trusted_path(own_directory() + "/cufile/" + name);
  if (!found.ok() && found.status().code() == Code::kNotFound) found = trusted_path(own_directory() + "/" + name);
  if (!found.ok()) return found;
  // The loader compares names, so the name without the full version is returned.
  return found->substr(0, found->rfind('/') + 1) + name;
}

Result<std::string> find_library(const std::string& named) {
  if (named.empty()) return find_own("libcufile.so.0");
  char absolute[PATH_MAX];
  return trusted_path(::realpath(named.c_str(), absolute) != nullptr ? absolute : named);
}

void prepend(const char* name, const std::string& value) {
  const char* before = std::getenv(name);
  ::setenv(name, (before != nullptr && before[0] != '\0' ? value + ":" + before : value).c_str(), 1);
}

[[noreturn]] void exec_program(const CufileRunOptions& options, const std::string& library, const std::string& config,
                               const std::string& reports) {
  prepend("LD_PRELOAD", library);
  prepend("LD_LIBRARY_PATH", library.substr(0, library.rfind('/')));  // for programs that open it by another name
  ::setenv("HEADRACE_CUFILE_REPORT", reports.c_str(), 1);
  // Some programs use parts of cuFile only if there is a configuration.
  if (!config.empty() && ::access("/etc/cufile.json", R_OK) != 0) ::setenv("CUFILE_ENV_PATH_JSON", config.c_str(), 0);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  print_error(std::string("cannot run the program: ") + std::strerror(error), options.command[0],
              "check its name and that it may be executed");
  ::_exit(error == ENOENT ? 127 : 126);
}

struct Report {
  std::string process;
  std::map<std::string, std::string> values;
  double number(const std::string& name) const {
    const auto found = values.find(name);
    return found == values.end() ? 0 : std::strtod(found->second.c_str(), nullptr);
  }
};

// Reads the processes' reports. `loaded` counts processes that loaded the library, even if they did not exit normally.
std::vector<Report> collect(const std::string& folder, std::size_t& loaded) {
  std::vector<Report> out;
  loaded = 0;
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return out;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (name.ends_with(".loaded")) ++loaded;
    if (name.ends_with(".report")) {
      Report report;
      report.process = name.substr(0, name.find('.'));
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);) {
        const auto space = line.find(' ');
        if (space != std::string::npos) report.values[line.substr(0, space)] = line.substr(space + 1);
      }
      out.push_back(std::move(report));
    }
    ::unlink(path.c_str());
  }
  ::rmdir(folder.c_str());
  return out;
}

std::string padded(std::string text) {
  text.resize(std::max<std::size_t>(text.size(), 20), ' ');
  return text;
}

bool has_calls(const Report& report) {
  return std::any_of(report.values.begin(), report.values.end(), [&](const auto& value) {
    const bool counts = value.first.rfind("calls.", 0) == 0 || value.first.rfind("failed.", 0) == 0;
    return counts && report.number(value.first) != 0;
  });
}

void print_stats(const Report& report) {
  const auto program = report.values.find("program");
  std::string text = "headrace: cufile-run: process " + report.process;
  if (program != report.values.end()) text += ", " + one_line(program->second);
  text += "\n";
  for (const auto& [name, value] : report.values) {
    if (name.rfind("calls.", 0) != 0) continue;
    const std::string what = name.substr(6);
    const auto done = static_cast<std::uint64_t>(report.number(name));
    const auto failed = static_cast<std::uint64_t>(report.number("failed." + what));
    if (done + failed == 0) continue;
    text += "  " + padded(what) + human_count(done);
    if (failed != 0) text += ", and " + human_count(failed) + " failed";
    text += "\n";
  }
  for (const auto& [name, value] : report.values) {
    if (name.rfind("bytes.", 0) != 0 || report.number(name) == 0) continue;
    std::string what = name.substr(6);
    std::replace(what.begin(), what.end(), '_', ' ');
    text += "  " + padded(what) + human_bytes(static_cast<std::uint64_t>(report.number(name))) + "\n";
  }
  for (const char* direction : {"read", "write"}) {
    const std::string prefix = std::string("latency_us.") + direction + ".";
    if (report.values.count(prefix + "p50") == 0) continue;
    text += "  " + padded(std::string(direction) + " latency");
    for (const char* percentile : {"p50", "p90", "p99", "max"}) {
      text += std::string(percentile) + " " + human_seconds(report.number(prefix + percentile) * 1e-6) + "  ";
    }
    text.erase(text.size() - 2);
    text += "\n";
  }
  std::fputs(text.c_str(), stderr);
}

int run_cufile(const CufileRunOptions& options) {
  const auto library = find_library(options.library);
  if (!library.ok()) {
    print_error("libcufile.so.0 of headrace cannot be used: " + describe(library.status()),
                options.library.empty() ? own_directory() : options.library,
                "install headrace, or name the file with --library");
    return kExitFailed;
  }
  const auto config = find_own("cufile.json");
  std::string reports = "/tmp/headrace-cufile-XXXXXX";
  if (::mkdtemp(reports.data()) == nullptr) {
    print_error(std::string("cannot make a folder for reports: ") + std::strerror(errno), "/tmp", "free some space");
    return kExitFailed;
  }
  if (!options.quiet) std::fprintf(stderr, "headrace: cufile-run: preloading %s\n", library->c_str());
  // The program itself handles interrupts from the terminal.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction interrupt {
  }, quit{};
  ::sigaction(SIGINT, &ignore, &interrupt);
  ::sigaction(SIGQUIT, &ignore, &quit);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::sigaction(SIGINT, &interrupt, nullptr);
    ::sigaction(SIGQUIT, &quit, nullptr);
    exec_program(options, *library, config.ok() ? *config : "", reports);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::size_t loaded = 0;
  const std::vector<Report> all = collect(reports, loaded);
  if (child < 0) {
    print_error("cannot start a process", options.command[0], "free some memory or end other processes");
    return kExitFailed;
  }
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  const bool used = std::any_of(all.begin(), all.end(), has_calls);
  if (options.stats) {
    for (const Report& report : all) {
      if (has_calls(report)) print_stats(report);
    }
    if (all.size() < loaded) {
      std::fprintf(stderr,
                   "headrace: cufile-run: %zu of %zu processes ended without a report (killed, or left by _exit)\n",
                   loaded - all.size(), loaded);
    }
  }
  for (const Report& report : all) {
    const auto other = report.values.find("other_library");
    if (other == report.values.end()) continue;
    const std::string what = "process " + report.process + ": " + one_line(other->second);
    // PyTorch's wheels load all their CUDA libraries by path, but are linked with the one that was loaded before.
    if (has_calls(report)) {
      std::fprintf(stderr,
                   "headrace: cufile-run: another libcufile was loaded beside headrace's, which got the calls (%s)\n",
                   what.c_str());
      continue;
    }
    print_error("the program has loaded another libcufile by its path, and may have used that one", what,
                "put a link to " + *library + " in its place, see docs/guide/cufile.md");
    return code != 0 ? code : kExitFailed;
  }
  if (loaded == 0 && code != 127 && code != 126) {
    print_error("the program did not load the library", options.command[0],
                "a static or set-user-id program ignores LD_PRELOAD: link it with this library instead");
    return code != 0 ? code : kExitFailed;
  }
  // Processes without a report may have made calls.
  if (code == 0 && !used && all.size() == loaded) {
    print_error("the program called no cuFile function", options.command[0],
                "if it should have, check its settings: many programs use cuFile only if it is enabled");
    return kExitFailed;
  }
  return code;
}

}  // namespace

Verb add_cufile_run_command(CLI::App& app) {
  auto options = std::make_shared<CufileRunOptions>();
  CLI::App* verb =
      app.add_subcommand("cufile-run", "run a program written for cuFile with headrace's library in front");
  verb->add_option("PROGRAM", options->command, "the program and its arguments, after --")
      ->required()
      ->type_name("PROGRAM [ARGUMENT...]");
  verb->add_flag("--stats", options->stats, "afterwards print calls, bytes by path and latency on standard error");
  verb->add_flag("--quiet", options->quiet, "do not say which library is used");
  verb->add_option("--library", options->library, "use this libcufile.so.0")->type_name("FILE");
  verb->footer(
      "Examples:\n"
      "  headrace cufile-run -- python train.py\n"
      "  headrace cufile-run --stats -- fio job.fio\n\n"
      "The exit code is the program's; 1 if the program succeeded without using the library.");
  return {verb, [options] { return run_cufile(*options); }};
}

}  // namespace headrace::cli
