// SignalsBlocked: the calling thread takes no signals as long as it lives, and a thread that it makes meanwhile never
// does. Signals are the program's; and one for a connection that was closed, or a file that grows beyond a limit, is an
// error of its system call then and ends no program.
//
// Threads: made and destroyed by the same one.
#pragma once

#include <csignal>

namespace headrace::os {

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace headrace::os
