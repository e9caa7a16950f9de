// Surroundings: what a store may know of the machine: variables of the environment, files of credentials, and
// programs that give them.
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
  std::function<std::string(const char*)> secure_getenv;  // empty where it is not set
  // The text of a regular file of at most 1 MiB; nothing where there is none.
  std::function<std::optional<std::string>(const std::string&)> file;
  // What is known of metadata services that do not answer; null: each is asked anew. Outlives this.
  SilentServices* silent = nullptr;
  // What a program prints that is called by these words, as run_program() has it; null: none is run.
  std::function<Result<std::string>(const std::vector<std::string>&)> run = nullptr;

  // The first of these variables that is set.
  std::string first_of(std::initializer_list<const char*> names) const;
  // Of the file that `variable` names, else of `usual` in the home directory; empty where there is none.
  std::string home_file(const char* variable, const char* usual) const;

  // Those of this process. Variables are as they are now: threads that ask later do not meet setenv(). `stop`, which
  // may be null, ends programs that run.
  static Surroundings of_process(std::shared_ptr<const std::atomic<bool>> stop);
};

}  // namespace headrace::http
