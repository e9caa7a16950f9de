// Surroundings: what a store may access of the machine: environment variables, credentials files, and programs that
// print credentials.
//
// Threads: pure but for the functions it is given.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace headrace::http {

class SilentServices;

struct Surroundings {
  std::function<std::string(const char*)> secure_getenv;  // empty if not set
  // The contents of a regular file of at most 1 MiB; nothing where there is none.
  std::function<std::optional<std::string>(const std::string&)> file;
  // Metadata services known not to respond; null: each is queried. Must outlive this object.
  SilentServices* silent = nullptr;
  // Runs a program with these arguments and returns its output, as run_program() does; null: programs are not run.
  std::function<Result<std::string>(const std::vector<std::string>&)> run = nullptr;

  // The value of the first of these variables that is set.
  std::string first_of(std::initializer_list<const char*> names) const;
  // The contents of the file that `variable` names, else of `default_path` below the home directory; empty where there
  // is none.
  std::string home_file(const char* variable, const char* default_path) const;

  // Those of this process. The environment is copied now, so later setenv() calls do not race with readers. `stop`,
  // which may be null, ends running programs.
  static Surroundings of_process(std::shared_ptr<const std::atomic<bool>> stop);
};

}  // namespace headrace::http
