// The command line tool as a process that stays: one command line after another, for what takes long to begin, as a GPU
// does. check_golden.py --reader talks to it.
//
//   golden_reader [DEVICE]      keeps DEVICE open, so that the reads in between find it at work
//
// Standard input: a line for each command, a JSON list of its arguments. Standard output: an empty line once the device
// is open, then for each command a line of JSON, its exit code and the beginning of what it said on stderr. What it
// prints on stdout is dropped.
#include <fcntl.h>
#include <headrace/device.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli_common.h"

namespace {

using headrace::base::Json;

constexpr std::size_t kMostSaid = 1 << 16;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(3);
}

int run(const Json& arguments) {
  std::vector<std::string> words = {"headrace"};
  for (const Json& word : arguments) words.push_back(word.get<std::string>());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return headrace::cli::run_command_line(static_cast<int>(words.size()), argv.data());
}

// What was written to `said` since it was emptied.
std::string text_of(int said) {
  std::string text(kMostSaid, '\0');
  const ssize_t count = pread(said, text.data(), text.size(), 0);
  if (count < 0) give_up("read back");
  text.resize(static_cast<std::size_t>(count));
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<headrace::Device> device;
  if (argc > 1) {
    auto opened = headrace::Device::open(argv[1]);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().to_string().c_str());
      return 1;
    }
    device = *opened;
  }
  FILE* const said = std::tmpfile();
  FILE* const answers = fdopen(dup(STDOUT_FILENO), "w");
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (said == nullptr || answers == nullptr || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) give_up("set up");
  // As a file that is appended to, since what is said is cut off between commands.
  if (fcntl(fileno(said), F_SETFL, O_APPEND) < 0 || dup2(fileno(said), STDERR_FILENO) < 0) give_up("set up");

  std::fputc('\n', answers);
  if (std::fflush(answers) != 0) give_up("begin");
  std::string line;
  while (std::getline(std::cin, line)) {
    if (ftruncate(STDERR_FILENO, 0) != 0) give_up("begin");
    // The peak of memory is each command's own; where the kernel does not let us, it is that of all.
    std::ofstream("/proc/self/clear_refs") << 5;
    const int code = run(Json::parse(line));
    Json answer = {{"code", code}, {"said", text_of(STDERR_FILENO)}};
    std::fprintf(answers, "%s\n", answer.dump(-1, ' ', true, Json::error_handler_t::replace).c_str());
    if (std::fflush(answers) != 0) give_up("answer");
  }
  return 0;
}
