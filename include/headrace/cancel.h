// Cancel: a token that stops the operations it was given to.
//
// Copies refer to the same token. Give it to any number of reads (ReadOptions::cancel, VariableReadOptions::cancel),
// builds of decode indices (DecodeIndexOptions::cancel) and transfer queues (FileQueueOptions::cancel), in sequence or
// concurrently.
//
// Threads: every call from any thread, including from a progress function. ask() takes a lock, so don't call it from a
//          signal handler.
// Fails:   a forked child must create its own tokens: asking an inherited one does not stop what the child has started.
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

  // Cannot be undone: operations with this token that have not ended stop with kCancelled; later ones are refused.
  // Returns at once. Whoever waits for an operation still waits for its device or disk work in flight.
  void ask() const noexcept;
  bool asked() const noexcept;

  class Impl;

 private:
  friend struct Access;
  std::shared_ptr<Impl> impl_;
};

}  // namespace headrace
