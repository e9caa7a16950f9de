// SignalsBlocked: blocks all signals for the calling thread during its lifetime; threads created meanwhile inherit the
// mask forever. Signals belong to the program. With SIGPIPE and SIGXFSZ blocked, writing to a closed connection or past
// a file size limit is an error of the system call and does not kill the program.
//
// Threads: created and destroyed by the same thread.
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
