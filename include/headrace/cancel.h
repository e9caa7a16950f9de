// Cancel: a token that stops the reads it was given to.
//
// Copies are one token. Give it to any number of reads (ReadOptions::cancel, VariableReadOptions::cancel), makings of
// decode indices (DecodeIndexOptions::cancel) and queues of transfers (FileQueueOptions::cancel), one after the other
// or at a time.
//
// Threads: every call from any thread, also from a progress function; ask() takes a lock, so no signal handler may.
// Fails:   a forked child makes tokens of its own: an inherited one reaches nothing that the child has begun.
#pragma once

#include <headrace/export.h>

#include <memory>

namespace headrace {

class HEADRACE_API Cancel {
 public:
  Cancel();  // throws std::bad_alloc
  Cancel(const Cancel&) = default;
  Cancel& operator=(const Cancel&) = default;
  ~Cancel() = default;

  // For good: what was given the token and has not ended stops with kCancelled, what is given it later does not begin.
  // Returns at once; what a device or a disk has under way is still waited for by whoever waits for the read.
  void ask() const noexcept;
  bool asked() const noexcept;

  class Impl;

 private:
  friend struct Access;
  std::shared_ptr<Impl> impl_;
};

}  // namespace headrace
