// What a test does in a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace headrace::support {

// Exit status of a forked child that runs `body` for at most so many seconds; a signal that ended it is negative.
inline int in_child(const std::function<int()>& body, unsigned seconds = 30) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds);
    ::_exit(body());
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace headrace::support
